package qemu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/resources"
)

// imageStore implements drivers.ImageStore and the image part of drivers.Resolver. An uploaded image is a file with
// a description beside it, ID and ID.json. The description is written first, and says at the end that the file is complete.
type imageStore struct {
	dir    string // of uploaded images
	files  string // of images that others put there
	format string // of uploads
}

const imageDescription = ".json"

// image is the description of an uploaded image.
type image struct {
	ID         string              `json:"id"`
	Name       string              `json:"name"`
	Tags       resources.OwnerJSON `json:"tags"`
	Ready      bool                `json:"ready"`
	Format     string              `json:"format"`
	Size       int64               `json:"size"`
	SHA256     string              `json:"sha256"`
	Created    time.Time           `json:"created"`
	Properties map[string]string   `json:"properties,omitempty"`
	ImageTags  []string            `json:"image_tags,omitempty"`
}

func (i image) remote() resources.RemoteImage {
	r := resources.RemoteImage{ID: i.ID, Name: i.Name, Marks: resources.OwnerTags(i.Tags), Status: resources.StatusPending, Format: i.Format, Size: i.Size,
		SHA256: i.SHA256, Created: i.Created, Properties: maps.Clone(i.Properties)}
	if i.Ready {
		r.Status = resources.StatusReady
	}
	return r
}

func (s *imageStore) path(id string) string { return filepath.Join(s.dir, id) }

func (s *imageStore) read(id string) (i image, found bool, err error) {
	if !isID(id) {
		return image{}, false, nil
	}
	found, err = readJSON(s.path(id)+imageDescription, id, &i)
	return i, found && i.ID == id && isOf(i.Tags, id), err
}

func (s *imageStore) write(i image) error { return writeJSON(s.path(i.ID)+imageDescription, i) }

// ImageFormat implements drivers.ImageStore.
func (s *imageStore) ImageFormat() string { return s.format }

// ListImages implements drivers.ImageStore.
func (s *imageStore) ListImages(ctx context.Context) ([]resources.RemoteImage, error) {
	all, err := s.uploaded(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]resources.RemoteImage, 0, len(all))
	for _, i := range all {
		list = append(list, i.remote())
	}
	return list, nil
}

func (s *imageStore) uploaded(ctx context.Context) ([]image, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var list []image
	for _, entry := range entries {
		id, ok := strings.CutSuffix(entry.Name(), imageDescription)
		if !ok {
			continue
		}
		i, found, err := s.read(id)
		if err != nil {
			return nil, fmt.Errorf("list images: %w", err)
		}
		if found {
			list = append(list, i)
		}
	}
	return list, nil
}

// DeleteImage implements drivers.ImageStore. Machines that run keep their open file of the image.
func (s *imageStore) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	doing := "delete image " + id
	if err := ctx.Err(); err != nil {
		return drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	i, found, err := s.read(id)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	case !found && s.isForeign(id), found && !resources.OwnerTags(i.Tags).SameRecord(expected):
		return fmt.Errorf("%s: %w", doing, drivers.ErrNotOurs)
	case !found:
		return nil
	}
	return s.remove(id)
}

// isForeign reports whether there is an image of that ID that npctl did not upload.
func (s *imageStore) isForeign(id string) bool {
	if !filepath.IsAbs(id) {
		if !isID(id) {
			return false
		}
		id = s.path(id)
	}
	_, err := os.Stat(id)
	return err == nil
}

// remove deletes the files of an uploaded image, the description last.
func (s *imageStore) remove(id string) error {
	description := s.path(id) + imageDescription
	return removeFiles(append(host.Unfinished(description), partName(s.path(id)), s.path(id), description)...)
}

// imageFile is an image from which machines can boot.
type imageFile struct {
	Path        string
	Format      string
	VirtualSize int64
}

// imageFile returns the file of an image: of an upload, or at an absolute path.
func (s *imageStore) imageFile(id string) (imageFile, error) {
	if filepath.IsAbs(id) {
		f, err := readImageFile(id)
		if err != nil {
			return f, drivers.Rejectf("image: %w", err)
		}
		return f, nil
	}
	i, found, err := s.read(id)
	if err != nil {
		return imageFile{}, drivers.Unsent(err)
	}
	if !found || !i.Ready {
		return imageFile{}, drivers.Rejectf("there is no image %q", id)
	}
	f, err := sizeOf(imageFile{Path: s.path(id), Format: i.Format})
	if err != nil {
		return f, drivers.Rejectf("image %s: %w", id, err)
	}
	return f, nil
}

// readImageFile returns a file that npctl did not upload. The header determines its format, which is safe because machines
// do not write to it. A file that names other files is an error.
func readImageFile(path string) (imageFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return imageFile{}, err
	}
	if !info.Mode().IsRegular() {
		return imageFile{}, fmt.Errorf("%s is not a regular file", path)
	}
	format := formatRaw
	if qemuimg.Check(path, formatQcow2) == nil {
		format = formatQcow2
	} else if err := qemuimg.Check(path, formatRaw); err != nil {
		return imageFile{}, err
	}
	return sizeOf(imageFile{Path: path, Format: format})
}

// sizeOf adds the size of the disk in the file.
func sizeOf(f imageFile) (imageFile, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return f, err
	}
	defer file.Close() //nolint:errcheck // only read
	if f.Format == formatQcow2 {
		const position = 24 // of the size in the header
		var size [8]byte
		_, err := file.ReadAt(size[:], position)
		f.VirtualSize = int64(binary.BigEndian.Uint64(size[:])) //nolint:gosec // qemu-img rejects larger sizes
		return f, err
	}
	f.VirtualSize, err = file.Seek(0, io.SeekEnd)
	return f, err
}
