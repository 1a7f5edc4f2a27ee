package reconcile

import (
	"context"
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
		filepath.Join(x.imagesDir(), to), format, qemuimg.Options{Log: log,
			Progress: func(done, total int64) { report("converting to "+format, done, total) }})
	if err != nil {
		return resources.ImageFile{}, err
	}
	return resources.ImageFile{Format: format, Name: to, Size: result.Size, SHA256: result.SHA256, MD5: result.MD5}, nil
}

// convertBuild adds a format to a build that is there.
func (x *execution) convertBuild(ctx context.Context, s plan.Step) error {
	b, ok := get[resources.Build](x.ledger, resources.Key{Kind: resources.KindBuild, ID: s.Build})
	if !ok {
		return fmt.Errorf("build %s is gone from the state", s.Build)
	}
	started := time.Now()
	for _, from := range b.Files {
		if _, err := os.Stat(filepath.Join(x.imagesDir(), from.Name)); err != nil {
			continue
		}
		file, err := x.convert(ctx, s, from, b.Image+"-"+b.ID, s.Format, nil)
		if err != nil {
			return err
		}
		b.Files = append(slices.DeleteFunc(slices.Clone(b.Files), func(f resources.ImageFile) bool { return f.Format == s.Format }), file)
		x.took("convert/"+b.Image+"/"+s.Format, time.Since(started).Seconds())
		return x.ledger.put(ctx, b)
	}
	return fmt.Errorf("no file of build %s is left to convert", b.ID)
}
