package qemu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// The files in the directory of a machine.
const (
	fileDescription = "machine.json"
	fileLock        = "lock"
	fileDisk        = "disk.qcow2"
	fileSeed        = "seed.iso"
	fileConsole     = "console.log"
	fileLog         = "qemu.log" // of QEMU itself
	filePID         = "qemu.pid"
)

// machine is the description of a machine.
type machine struct {
	ID       string              `json:"id"`
	Name     string              `json:"name"`
	Tags     resources.OwnerJSON `json:"tags,omitzero"`
	Created  time.Time           `json:"created"`
	Cores    int64               `json:"cores"`
	RAM      int64               `json:"ram"` // MiB
	Port     int                 `json:"port"`
	Username string              `json:"username,omitempty"`
	Image    string              `json:"image"` // ID
	Accel    string              `json:"accel,omitempty"`
}

// isOf reports whether ownership tags are those of the object with an ID, or empty. A copy has those of another object.
func isOf(tags resources.OwnerJSON, id string) bool {
	return tags == (resources.OwnerJSON{}) || idOf(resources.OwnerTags(tags)) == id
}

// idOf returns the ID of the object of a record. It is the same in each call, and differs between installations that use
// the same directory.
func idOf(m resources.OwnerTags) string {
	sum := sha256.Sum256([]byte(m.Installation + "\x00" + string(m.Kind) + "\x00" + m.ID))
	id := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' {
			return r
		}
		return '_'
	}, text.Cut(m.ID, 40))
	return string(m.Kind) + "-" + id + "-" + hex.EncodeToString(sum[:4])
}

// form is the form of the IDs of npctl.
var form = drivers.Pattern(`^(node|build|upload)-[0-9A-Za-z_-]+-[0-9a-f]{8}$`)

// hasForm reports whether npctl can have given an ID.
func hasForm(id string) bool { return form().MatchString(id) }

// isID reports whether the text can be an ID, and thus is a file name without a path.
func isID(id string) bool { return id != "" && !strings.HasPrefix(id, ".") && filepath.Base(id) == id }

func (c *Cloud) machines() string             { return filepath.Join(c.dir, "machines") }
func (c *Cloud) file(id, name string) string  { return filepath.Join(c.machines(), id, name) }
func (c *Cloud) directoryOf(id string) string { return filepath.Join(c.machines(), id) }
func (m machine) amounts() resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: 1, Cores: m.Cores, RAM: m.RAM}
}

// read returns the description of a machine. A link, or a copy of another machine, is no machine.
func (c *Cloud) read(id string) (m machine, found bool, err error) {
	if !isID(id) {
		return machine{}, false, nil
	}
	if info, err := os.Lstat(c.directoryOf(id)); err == nil && !info.IsDir() {
		return machine{}, false, nil
	}
	found, err = readJSON(c.file(id, fileDescription), id, &m)
	return m, found && m.ID == id && isOf(m.Tags, id), err
}

func (c *Cloud) write(m machine) error { return writeJSON(c.file(m.ID, fileDescription), m) }

// all returns the descriptions of all machines, by ID.
func (c *Cloud) all() ([]machine, error) {
	entries, err := os.ReadDir(c.machines())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []machine
	for _, entry := range entries {
		m, found, err := c.read(entry.Name())
		if err != nil {
			return nil, err
		}
		if found {
			list = append(list, m)
		}
	}
	return list, nil
}

// readJSON reads the description of the object with an ID. A file that is none is an error if npctl can have given the ID,
// and foreign otherwise.
func readJSON(path, id string, into any) (found bool, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return false, nil
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(path)
	}
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist) || !hasForm(id):
		return false, nil
	}
	return false, fmt.Errorf("read %s: %w", path, err)
}

func writeJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return host.ReplaceFile(path, append(content, '\n'), 0o600)
}
