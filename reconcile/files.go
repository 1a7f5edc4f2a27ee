package reconcile

import (
	"context"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// deleteFile removes an image file and its entry in the record of the build. A step without a build refers to the build
// that this run has created.
func (x *execution) deleteFile(ctx context.Context, s plan.Step) error {
	name, build := s.External, s.Build
	if build == "" {
		build = x.results.build(s.Image)
		name = s.Image + "-" + build + "." + s.Format
	}
	if err := x.dropFile(ctx, build, name); err != nil {
		return err
	}
	return x.files().removeImage(ctx, name)
}

func (x *execution) dropFile(ctx context.Context, build, name string) error {
	release, err := x.acquire(ctx, "files of builds", 1)
	if err != nil {
		return err
	}
	defer release()
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: build})
	if !ok {
		return nil
	}
	b.Files = slices.DeleteFunc(slices.Clone(b.Files), func(f resources.ImageFile) bool { return f.Name == name })
	return x.cache.put(ctx, b)
}
