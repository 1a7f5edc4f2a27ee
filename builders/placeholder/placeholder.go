// Package placeholder provides a builder in place of any other one. It runs no program and writes a small file in each
// format. npctl test uses it.
package placeholder

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Replace returns a builder with the kind and the schema of another builder.
func Replace(b builders.Builder) builders.Builder {
	made := &builder{kind: b.Kind(), schema: b.Schema()}
	_, remote := b.(builders.Remote) // its hosts would know the versions
	if _, ok := b.(builders.Versioned); ok && !remote {
		return &versioned{made}
	}
	return made
}

// builder writes small files.
type builder struct {
	kind   string
	schema schema.Block
}

// versioned is a builder of images with one version.
type versioned struct{ *builder }

var (
	_ builders.Builder   = (*builder)(nil)
	_ builders.Versioned = (*versioned)(nil)
)

// Kind implements builders.Builder.
func (b *builder) Kind() string { return b.kind }

// Schema implements builders.Builder.
func (b *builder) Schema() schema.Block { return b.schema }

// Build implements builders.Builder.
func (b *builder) Build(ctx context.Context, job builders.Job, _ io.Writer) (builders.Artifact, error) {
	formats := job.Formats
	if len(formats) == 0 {
		formats = []string{"raw"}
	}
	var made builders.Artifact
	for _, format := range formats {
		path := filepath.Join(job.Dir, job.Name+"."+format)
		if err := os.WriteFile(path, []byte("placeholder of "+job.Image+"\n"), 0o600); err != nil {
			return builders.Artifact{}, err
		}
		made.Files = append(made.Files, builders.File{Format: format, Path: path})
	}
	return made, ctx.Err()
}

// Versions implements builders.Versioned.
func (v *versioned) Versions(ctx context.Context, _ string, _ cty.Value, _ string) ([]resources.Version, error) {
	return []resources.Version{{ID: "placeholder", Time: time.Unix(1, 0).UTC()}}, ctx.Err()
}
