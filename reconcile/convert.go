package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func (x *execution) convert(ctx context.Context, s plan.Step, from resources.ImageFile, name, format string, log io.Writer) (resources.ImageFile, error) {
	report := x.progress(s)
	to := name + "." + format
	result, err := qemuimg.Convert(ctx, filepath.Join(x.imagesDir(), from.Name), from.Format,
		filepath.Join(x.imagesDir(), to), format, qemuimg.Options{Log: log, Run: x.RunQemuImg,
			Progress: func(done, total int64) { report("converting to "+format, done, total) }})
	if err != nil {
		return resources.ImageFile{}, err
	}
	return resources.ImageFile{Format: format, Name: to, Size: result.Size, SHA256: result.SHA256, MD5: result.MD5}, nil
}

// convertBuild adds a format to an existing build.
func (x *execution) convertBuild(ctx context.Context, s plan.Step) error {
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: s.Build})
	if !ok {
		return fmt.Errorf("build %s is not in the state any more", s.Build)
	}
	err := x.addFormat(ctx, s, b)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, x.rememberUnconverted(ctx, b, s.Format, err))
}

func (x *execution) addFormat(ctx context.Context, s plan.Step, b *resources.Build) error {
	started := time.Now()
	there := func(f resources.ImageFile) bool {
		_, err := os.Stat(filepath.Join(x.imagesDir(), f.Name))
		return err == nil
	}
	i := slices.IndexFunc(b.Files, there)
	if i < 0 {
		return fmt.Errorf("build %s has no file to convert", b.ID)
	}
	file, err := x.convert(ctx, s, b.Files[i], b.Image+"-"+b.ID, s.Format, nil)
	if err != nil {
		return err
	}
	x.books.recordDuration("convert/"+b.Image+"/"+s.Format, time.Since(started).Seconds())
	found, err := x.changeFiles(ctx, b.ID, func(files []resources.ImageFile) []resources.ImageFile {
		return append(slices.DeleteFunc(files, func(f resources.ImageFile) bool { return f.Format == file.Format }), file)
	})
	if err == nil && !found {
		err = fmt.Errorf("build %s is not in the state any more", b.ID)
	}
	return err
}

// deleteFile removes an image file and its entry in the record of the build. A step without a build refers to the build
// that this run has created.
func (x *execution) deleteFile(ctx context.Context, s plan.Step) error {
	name, build := s.External, s.Build
	if build == "" {
		build = x.results.id(s.Image, "")
		name = s.Image + "-" + build + "." + s.Format
	}
	_, err := x.changeFiles(ctx, build, func(files []resources.ImageFile) []resources.ImageFile {
		return slices.DeleteFunc(files, func(f resources.ImageFile) bool { return f.Name == name })
	})
	if err != nil {
		return err
	}
	return x.files().removeImage(ctx, name)
}

// changeFiles changes the files in the record of a build, and reports whether there is one. It does not overwrite the
// change of another step.
func (x *execution) changeFiles(ctx context.Context, build string, change func([]resources.ImageFile) []resources.ImageFile) (found bool, err error) {
	release, err := x.slots.acquire(ctx, "files of builds", 1)
	if err != nil {
		return false, err
	}
	defer release()
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: build})
	if !ok {
		return false, nil
	}
	b.Files = change(slices.Clone(b.Files))
	return true, x.cache.put(ctx, b)
}

// rememberUnconverted records a failure for each provider that needs the format, so that its backoff also covers the
// conversion: no upload to it will fail.
func (x *execution) rememberUnconverted(ctx context.Context, b *resources.Build, format string, cause error) error {
	ref := resources.ImageRef{Kind: b.Kind, Name: b.Image}
	waits := func(p resources.Provider) bool {
		return x.seen.Formats[p.Name] == format && slices.ContainsFunc(p.Pools, func(pool resources.Pool) bool {
			return slices.ContainsFunc(pool.Offers, func(o resources.Offer) bool { return o.Image == ref })
		})
	}
	has := map[string]bool{}
	for _, u := range all[resources.Upload](x.cache) {
		has[u.Provider] = has[u.Provider] || u.Build == b.ID && u.State == resources.StateReady
	}
	return x.cache.changeImage(ctx, b.Image, b.Kind, func(r *resources.ImageRecord) {
		for _, p := range x.Desired.Providers {
			if waits(p) && !has[p.Name] {
				uploadFailed(r, p.Name, x.Now(), cause, b.ID)
			}
		}
	})
}
