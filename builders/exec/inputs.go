package exec

import (
	"context"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/inputs"
	"github.com/npctl/npctl/resources"
)

// InputFiles implements builders.Inputs. It digests the files that `inputs` matches, and the program itself if the
// command has a relative path.
func (b *Builder) InputFiles(ctx context.Context, config cty.Value, baseDir string) (resources.InputFiles, error) {
	s, err := b.read(config, baseDir)
	if err != nil {
		return resources.InputFiles{}, err
	}
	sets := []inputs.Set{{Base: baseDir, Patterns: s.Inputs}}
	if len(s.Command) > 0 && isLocal(s.Command[0]) {
		sets = append(sets, inputs.Set{Base: s.WorkingDir, Patterns: s.Command[:1]})
	}
	return b.inputs.Hash(ctx, baseDir, sets...)
}

func isLocal(program string) bool {
	return strings.Contains(program, "/") && !strings.HasPrefix(program, "/")
}
