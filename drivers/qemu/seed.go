package qemu

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// seedFiles returns the files of a NoCloud seed (https://docs.cloud-init.io/en/latest/reference/datasources/nocloud.html).
// The user and keys are vendor data, which user data can override. A JSON string is a YAML string.
func seedFiles(m machine, o poolSettings) map[string]string {
	keys := quoted(o.SSHKeys)
	meta := fmt.Sprintf("instance-id: %s\nlocal-hostname: %s\n", quote(m.ID), quote(m.Name))
	vendor := "#cloud-config\n"
	switch {
	case o.User != "":
		vendor += "users:\n  - name: " + quote(o.User) + "\n    gecos: npctl\n    shell: /bin/bash\n    lock_passwd: true\n" +
			"    sudo: ALL=(ALL) NOPASSWD:ALL\n"
		if len(keys) > 0 {
			vendor += "    ssh_authorized_keys:\n      - " + strings.Join(keys, "\n      - ") + "\n"
		}
	case len(keys) > 0:
		vendor += "ssh_authorized_keys:\n  - " + strings.Join(keys, "\n  - ") + "\n"
	}
	user := cmp.Or(o.UserData, "#cloud-config\n{}\n")
	return map[string]string{"meta-data": meta, "vendor-data": vendor, "user-data": user}
}

func quoted(values []string) []string {
	var list []string
	for _, v := range values {
		list = append(list, quote(strings.TrimSpace(v)))
	}
	return list
}

func quote(value string) string {
	text, _ := json.Marshal(value) // a string
	return string(text)
}

// seedLabel is the volume label by which cloud-init finds the seed.
const seedLabel = "cidata"

// seedBlock is the size of a sector of an ISO image.
const seedBlock = 2048

// writeSeed writes a seed as an ISO image and replaces an existing one.
func writeSeed(path string, m machine, o poolSettings) error {
	files := seedFiles(m, o)
	size := int64(1 << 20)
	for _, content := range files {
		size += int64(len(content))
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // Finalize has written the image
	work, err := os.MkdirTemp(os.TempDir(), "npctl-seed")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // Finalize removes it too
	iso, err := iso9660.Create(file.New(out, false), size, 0, seedBlock, work)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := writeInto(iso, "/"+name, content); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return iso.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: seedLabel})
}

func writeInto(iso *iso9660.FileSystem, name, content string) error {
	entry, err := iso.OpenFile(name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	if _, err := entry.Write([]byte(content)); err != nil {
		return err
	}
	return entry.Close()
}
