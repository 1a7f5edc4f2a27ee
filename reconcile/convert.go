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
	for _, from := range b.Files {
		if _, err := os.Stat(filepath.Join(x.imagesDir(), from.Name)); err != nil {
			continue
		}
		file, err := x.convert(ctx, s, from, b.Image+"-"+b.ID, s.Format, nil)
		if err != nil {
			return err
		}
		x.recordDuration("convert/"+b.Image+"/"+s.Format, time.Since(started).Seconds())
		return x.addFile(ctx, b.Key(), file)
	}
	return fmt.Errorf("build %s has no file to convert", b.ID)
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
	return x.imageRecords().change(ctx, b.Image, b.Kind, func(r *resources.ImageRecord) {
		for _, p := range x.Desired.Providers {
			if waits(p) && !has[p.Name] {
				uploadFailed(r, p.Name, x.Now(), cause, b.ID)
			}
		}
	})
}

// addFile adds a file to the record of a build. Another conversion may have added its own since.
func (x *execution) addFile(ctx context.Context, build resources.Key, file resources.ImageFile) error {
	release, err := x.acquire(ctx, "files of builds", 1)
	if err != nil {
		return err
	}
	defer release()
	b, ok := get[resources.Build](x.cache, build)
	if !ok {
		return fmt.Errorf("build %s is not in the state any more", build.ID)
	}
	b.Files = append(slices.DeleteFunc(slices.Clone(b.Files), func(f resources.ImageFile) bool { return f.Format == file.Format }), file)
	return x.cache.put(ctx, b)
}
