package snapshot

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/inputs"
	"github.com/npctl/npctl/resources"
)

// InputFiles implements builders.Inputs. It digests the script and the files that `inputs` matches.
func (b *Builder) InputFiles(ctx context.Context, config cty.Value, baseDir string) (resources.InputFiles, error) {
	s, err := b.read(config, baseDir)
	if err != nil {
		return resources.InputFiles{}, err
	}
	set := inputs.Set{Base: baseDir, Patterns: s.Inputs}
	if s.script.file != "" {
		set.Patterns = append(set.Patterns, s.script.file)
	}
	return b.inputs.Hash(ctx, baseDir, set)
}
