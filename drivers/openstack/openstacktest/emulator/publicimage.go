package emulator

import (
	"crypto/md5"
	"crypto/sha512"
	"errors"
	"fmt"
	"io/fs"
	"maps"
)

// PublicImage is an image that the cloud offers to every project, like a distribution's image. It is a small raw
// image without data.
type PublicImage struct {
	Name       string
	MinDisk    int64 // GB
	MinRAM     int64 // MiB
	Properties map[string]string
	Private    bool // it belongs to npctl's project, like the upload of a person
}

func (i PublicImage) id() string { return stableID("image/" + i.Name) }

func (i PublicImage) key() string { return "image/" + i.Name }

// content differs for each name, so that the checksums differ.
func (i PublicImage) content() []byte {
	content := fmt.Appendf(nil, "emulator image %s\n", i.Name)
	return append(content, make([]byte, 64<<10)...)
}

func (sd seeder) addPublicImage(p PublicImage) {
	row := &image{
		base: sd.w.newBase(hexID("project/service"), sd.now), Name: p.Name, HasName: true, Status: "active", Visibility: "public",
		DiskFormat: "raw", ContainerFormat: "bare", MinDisk: p.MinDisk, MinRAM: p.MinRAM, Properties: maps.Clone(p.Properties),
	}
	row.ID = p.id()
	if p.Private {
		row.Project, row.Visibility = hexID("project/"+User), "shared"
	}
	if row.Properties == nil {
		row.Properties = map[string]string{}
	}
	d := &digest{md5: md5.New(), sha512: sha512.New()}
	_, _ = d.Write(p.content()) // never fails
	row.describe(d)
	sd.w.Images.add(row)
}

// keepPublicImages makes public images downloadable.
func (c *contents) keepPublicImages(images []PublicImage) error {
	for _, p := range images {
		there, err := c.open(p.id())
		if err == nil {
			_ = there.Close()
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		in := c.receive(p.id())
		_, _ = in.Write(p.content()) // commit returns an error of Write
		err = in.commit()
		in.discard()
		if err != nil {
			return fmt.Errorf("keep emulator image %s: %w", p.Name, err)
		}
	}
	return nil
}
