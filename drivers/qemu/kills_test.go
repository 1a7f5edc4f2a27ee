package qemu

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// mortal is a client that is killed before, within and after its calls. A kill within a call leaves the files that the call
// has at that point.
type mortal struct {
	*Cloud
	kill *testutil.Killer
}

// within does the steps of a call one by one, with a point after each. The call itself then repeats them.
func (m mortal) within(what string, steps ...func() error) error {
	for _, step := range steps {
		if err := errors.Join(step(), m.kill.Pass("within "+what)); err != nil {
			return err
		}
	}
	return nil
}

func (m mortal) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	return testutil.Around(m.kill, "Create", func() (resources.Instance, error) {
		id := idOf(spec.Marks)
		if err := m.within("Create",
			func() error { return os.MkdirAll(m.directoryOf(id), 0o700) },
			func() error { return os.WriteFile(m.file(id, fileLock), nil, 0o600) },
			func() error { return os.WriteFile(m.file(id, "."+fileDescription+"123"), nil, 0o600) },
			func() error { return m.reserveOnly(ctx, spec) },
			func() error { return os.WriteFile(m.file(id, fileDisk), nil, 0o600) },
		); err != nil {
			return resources.Instance{}, err
		}
		return m.Cloud.Create(ctx, spec)
	})
}

// reserveOnly is the part of Create before the start.
func (m mortal) reserveOnly(ctx context.Context, spec drivers.Spec) error {
	b, err := m.bootOf(spec)
	if err != nil {
		return err
	}
	_, lock, err := m.reserve(ctx, b)
	if lock != nil {
		err = errors.Join(err, lock.Close())
	}
	return err
}

func (m mortal) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	_, err := testutil.Around(m.kill, "Delete", func() (any, error) {
		err := m.within("Delete",
			func() error {
				lock, err := m.stop(ctx, id)
				return errors.Join(err, lock.Close())
			},
			func() error { return removeFiles(m.file(id, fileDisk), m.file(id, fileSeed)) },
			func() error {
				return removeFiles(m.file(id, fileConsole), m.file(id, fileLog), m.file(id, filePID), m.file(id, "."+fileDescription+"123"))
			},
			func() error { return removeFiles(m.file(id, fileDescription)) },
			func() error { return errors.Join(removeFiles(m.file(id, fileLock)), os.Remove(m.directoryOf(id))) })
		return nil, errors.Join(err, m.Cloud.Delete(ctx, id, expected))
	})
	return err
}

func (m mortal) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	return testutil.Around(m.kill, "UploadImage", func() (resources.RemoteImage, error) {
		id := idOf(spec.Marks)
		if err := m.within("UploadImage",
			func() error { return os.MkdirAll(m.imageStore.dir, 0o700) },
			func() error {
				return m.imageStore.write(image{ID: id, Name: spec.Name, Tags: resources.OwnerJSON(spec.Marks)})
			},
			func() error { return os.WriteFile(partName(m.path(id)), []byte("half"), 0o600) },
			func() error { return os.Rename(partName(m.path(id)), m.path(id)) },
		); err != nil {
			return resources.RemoteImage{}, err
		}
		return m.Cloud.UploadImage(ctx, spec, content)
	})
}

func (m mortal) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	_, err := testutil.Around(m.kill, "DeleteImage", func() (any, error) {
		err := m.within("DeleteImage", func() error { return removeFiles(m.path(id)) })
		return nil, errors.Join(err, m.Cloud.DeleteImage(ctx, id, expected))
	})
	return err
}

// volatile are the files of which QEMU writes the content.
var volatile = []string{fileDisk, fileConsole, fileLog, filePID}

func (p place) files(t *testing.T) []string { return drivertest.FilesIn(t, p.dir, volatile...) }

// objects are the files of machines and images. A lock alone is nothing: the next Create removes it.
func (p place) objects(t *testing.T) (all []string) {
	for _, file := range drivertest.FilesIn(t, p.dir) {
		words := strings.Fields(file)
		if name := filepath.Base(words[1]); words[0] == "file" && name != fileLock && !strings.HasPrefix(name, "."+fileDescription) {
			all = append(all, strings.Join(words[:2], " "))
		}
	}
	return all
}

// copiesOf copies the directory of a machine, or the files of an image: under names of others, and under names that npctl could give, of
// which one is also the ID in the description.
func (p place) copiesOf(t *testing.T, kind resources.Kind, original string) (all []drivertest.Foreign) {
	t.Helper()
	c := p.open(t, limits())
	form := original[:len(original)-8]
	for _, name := range []string{"backup", original + ".bak", form + "00000000", form + "00000001"} {
		description := c.path(name) + imageDescription
		if kind == resources.KindNode {
			description = c.file(name, fileDescription)
			testutil.Must(t, os.CopyFS(c.directoryOf(name), os.DirFS(c.directoryOf(original))))
		} else {
			testutil.WriteFile(t, c.path(name), testutil.ReadFile(t, c.path(original)))
			testutil.WriteFile(t, description, testutil.ReadFile(t, c.path(original)+imageDescription))
		}
		if strings.HasSuffix(name, "1") {
			testutil.WriteFile(t, description, strings.Replace(testutil.ReadFile(t, description), original, name, 1))
		}
		if kind == resources.KindNode {
			all = append(all, drivertest.ForeignFile(t, c.directoryOf(name)))
		} else {
			all = append(all, drivertest.ForeignFile(t, c.path(name)), drivertest.ForeignFile(t, description))
		}
	}
	return all
}

// neighbours are files of others in both directories.
func (p place) neighbours(t *testing.T, node drivers.Spec, upload drivers.ImageSpec) (all []drivertest.Foreign) {
	t.Helper()
	outside := t.TempDir()
	machines, images := filepath.Join(p.dir, "machines"), filepath.Join(p.dir, "images")
	own, ownImage := idOf(node.Marks), idOf(upload.Marks)
	for _, path := range []string{
		filepath.Join(outside, "locked", fileLock), filepath.Join(outside, "data", "precious"), filepath.Join(outside, "file"),
		filepath.Join(machines, "debian-container", "etc", "important.db"),
		filepath.Join(machines, "locked", fileLock),
		filepath.Join(machines, "node-1-deadbeef", "var", "data"),
		filepath.Join(machines, "node-2-deadbeef", fileLock, "data"),
		filepath.Join(machines, "node-6-deadbeef", fileLock), filepath.Join(machines, own+".bak", fileLock),
		filepath.Join(machines, "README"), filepath.Join(machines, "node-3-deadbeef"),
		filepath.Join(images, "README"), filepath.Join(images, "broken.json"), filepath.Join(images, ownImage+".bak"),
		filepath.Join(images, "other.part"), filepath.Join(images, "."+ownImage+".json.swp"), filepath.Join(images, "upload-1-deadbeef.json", "data"),
	} {
		testutil.WriteFile(t, path, "{theirs")
	}
	testutil.Must(t, os.Mkdir(filepath.Join(machines, "empty"), 0o700))
	for path, target := range map[string]string{
		filepath.Join(machines, "link"): "data", filepath.Join(machines, "node-4-deadbeef"): "locked", filepath.Join(machines, "node-5-deadbeef"): "missing",
		filepath.Join(images, "link"): "file", filepath.Join(images, "upload-2-deadbeef.json"): "file", filepath.Join(images, "upload-3-deadbeef.json"): "missing",
	} {
		testutil.Must(t, os.Symlink(filepath.Join(outside, target), path))
	}
	for _, dir := range []string{outside, machines, images} {
		entries, err := os.ReadDir(dir)
		testutil.Must(t, err)
		for _, entry := range entries {
			all = append(all, drivertest.ForeignFile(t, filepath.Join(dir, entry.Name())))
		}
	}
	return all
}
