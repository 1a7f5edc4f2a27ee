package dib

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/process"
)

// collect returns the results of a successful build: the images, their checksums, and the manifests in <name>.d.
func collect(job builders.Job, s settings, formats []string) (builders.Artifact, error) {
	made := builders.Artifact{Extra: map[string]string{}}
	for _, format := range formats {
		file := builders.File{Format: format, Path: output(job) + "." + format}
		if err := check(file); err != nil {
			return builders.Artifact{}, err
		}
		sum, err := checksum(file.Path + ".sha256")
		if err != nil {
			return builders.Artifact{}, err
		}
		if sum != "" {
			made.Extra["sha256_"+format] = sum
		}
		made.Files = append(made.Files, file)
	}
	manifests := output(job) + ".d"
	if _, err := os.Stat(manifests); err == nil {
		made.Extra["manifests"] = filepath.Base(manifests)
		if err := scrub(manifests, process.NewMasker(s.secrets)); err != nil {
			return builders.Artifact{}, fmt.Errorf("remove secrets from the manifests: %w", err)
		}
	}
	return made, nil
}

func check(file builders.File) error {
	err := imagefile.Accept(file.Path, file.Format)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the build succeeded but did not create %s: does `command` pass on its arguments?", file.Path)
	}
	return err
}

var sha256Line = regexp.MustCompile(`^([0-9a-f]{64})\s`)

// checksum reads a checksum file. There is none for tar files and for commands other than disk-image-create.
func checksum(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	found := sha256Line.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s is incomplete: it must begin with 64 hex digits", path)
	}
	return string(found[1]), nil
}

// scrubLimit is the largest manifest that scrub reads, in bytes; the longest ones, lists of packages, have some 100
// KiB.
const scrubLimit = 16 << 20

// scrub masks secrets in manifests, which contain the environment and the arguments of diskimage-builder.
func scrub(dir string, mask *process.Masker) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() > scrubLimit {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		masked := []byte(mask.Text(string(text)))
		if bytes.Equal(masked, text) {
			return nil
		}
		// A new file, because root may own the old one in a directory of npctl's user.
		return errors.Join(os.Remove(path), os.WriteFile(path, masked, info.Mode().Perm()))
	})
}
