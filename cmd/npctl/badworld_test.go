package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.etcd.io/bbolt"
)

// Script commands that create invalid files and faulty file systems.

// scriptBig writes a file of MIB mebibytes that repeats a line: big FILE MIB LINE.
func scriptBig(ts *testscript.TestScript, _ bool, args []string) {
	mib, err := strconv.Atoi(args[1])
	ts.Check(err)
	line := args[2] + "\n"
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat(line, mib<<20/len(line)+1)), 0o600))
}

// scriptDeep writes an attribute with DEPTH nested lists: deep FILE DEPTH.
func scriptDeep(ts *testscript.TestScript, _ bool, args []string) {
	depth, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := "locals {\n  x = " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "\n}\n"
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// scriptBinary writes binary data: binary FILE.
func scriptBinary(ts *testscript.TestScript, _ bool, args []string) {
	var all []byte
	for i := range 4096 {
		all = append(all, byte(i*7), 0, 0xff)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), all, 0o600))
}

// scriptTruncate truncates a file to half of its size: truncate FILE.
func scriptTruncate(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), info.Size()/2))
}

// scriptNewer changes a state file as if a newer npctl had written it: newer FILE.
func scriptNewer(ts *testscript.TestScript, _ bool, args []string) {
	db, err := bbolt.Open(ts.MkAbs(args[0]), 0o600, &bbolt.Options{Timeout: time.Second})
	ts.Check(err)
	ts.Check(db.Update(func(tx *bbolt.Tx) error {
		name, key := []byte("npctl"), []byte("head")
		head := map[string]any{}
		const seal = 12
		if err := json.Unmarshal(tx.Bucket(name).Get(key)[seal:], &head); err != nil {
			return err
		}
		head["schema"], head["written_by"] = 99, "9.9"
		text, err := json.Marshal(head)
		if err != nil {
			return err
		}
		value := append(make([]byte, seal), text...)
		table := crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Update(0, table, []byte("npctl\x00head"))
		sum = crc32.Update(sum, table, value[:8])
		binary.BigEndian.PutUint32(value[8:], crc32.Update(sum, table, text))
		return tx.Bucket(name).Put(key, value)
	}))
	ts.Check(db.Close())
}

// scriptReadOnly creates a directory that contains npctl.hcl and is read-only even for root: readonly DIR.
func scriptReadOnly(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.Mkdir(dir, 0o700))
	if os.Geteuid() == 0 {
		mountTmpfs(ts, dir, "1m")
	}
	ts.Check(os.WriteFile(filepath.Join(dir, "npctl.hcl"), []byte(ts.ReadFile("npctl.hcl")), 0o600))
	if os.Geteuid() == 0 {
		ts.Check(syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		return
	}
	ts.Check(os.Chmod(dir, 0o500))
	ts.Defer(func() { _ = os.Chmod(dir, 0o700) }) //nolint:gosec // the directory must be removable
}

// scriptOnFullDisk runs npctl with a capacity of KIB kibibytes in directory full: onfulldisk KIB ARGS. For root this is
// a small tmpfs, for other users a limit on the size of files.
func scriptOnFullDisk(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs("full")
	ts.Check(os.MkdirAll(dir, 0o700))
	kib, err := strconv.Atoi(args[0])
	ts.Check(err)
	command := append([]string{"npctl"}, args[1:]...)
	if os.Geteuid() == 0 {
		mountTmpfs(ts, dir, args[0]+"k")
	} else {
		command = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -f %d; exec "$@"`, 2*kib), "sh"}, command...)
	}
	err = ts.Exec(command[0], command[1:]...)
	if (err != nil) != neg {
		ts.Fatalf("npctl %v ended with %v", args, err)
	}
}

func mountTmpfs(ts *testscript.TestScript, dir, size string) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		ts.Fatalf("mount tmpfs: %v (run the tests without root where mounts are forbidden)", err)
	}
	ts.Defer(func() { _ = exec.Command("umount", "-l", dir).Run() })
}
