package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/internal/qemuimg/qemuimgtest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == qemuimg.Program {
		qemuimgtest.Main()
	}
	testscript.Main(m, map[string]func(){"npctl": main, "emulator": emulator.Main})
}

// TestSessions runs the scripts in testdata/script. A script without its own npctl.hcl uses testdata/fleet.hcl.
func TestSessions(t *testing.T) {
	fleet, err := os.ReadFile("testdata/fleet.hcl")
	testutil.Must(t, err)
	examples, err := filepath.Abs(examplesDir)
	testutil.Must(t, err)
	bin, bare := qemuImgOfTests(t), barePath(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("BAREPATH", bare)
			env.Setenv("TERM", "xterm")
			env.Setenv("EXAMPLES", examples)
			path := filepath.Join(env.WorkDir, "npctl.hcl")
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return os.WriteFile(path, fleet, 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sub": scriptSub, "waitfor": scriptWaitFor, "cloud": scriptCloud, "servers": scriptServers,
			"jsonlines": scriptJSONLines, "lockid": scriptLockID, "watched": scriptWatched, "setjson": scriptSetJSON,
			"big": scriptBig, "deep": scriptDeep, "binary": scriptBinary, "truncate": scriptTruncate, "newer": scriptNewer,
			"freeport": scriptFreePort, "sshkey": scriptSSHKey,
			"readonly": scriptReadOnly, "onfulldisk": scriptOnFullDisk,
		},
	})
}

// qemuImgOfTests returns a directory with a program qemu-img that is this test binary.
func qemuImgOfTests(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	testutil.Must(t, err)
	bin := t.TempDir()
	testutil.Must(t, os.Symlink(self, filepath.Join(bin, qemuimg.Program)))
	return bin
}

// barePath returns a directory that contains only npctl and a shell: the PATH of a host without other programs.
func barePath(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"npctl", "sh"} {
		path, err := exec.LookPath(name)
		testutil.Must(t, err)
		testutil.Must(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	return bin
}

// scriptSub replaces all occurrences of a text: sub FILE OLD NEW.
func scriptSub(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: sub FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], args[2])), 0o600))
}

// scriptWaitFor waits until the content of a file matches: waitfor FILE REGEXP.
func scriptWaitFor(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[1])
	for deadline := time.Now().Add(testutil.Patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && want.Match(text) {
			return
		}
	}
	ts.Fatalf("%s never held %s", args[0], args[1])
}

// scriptCloud changes or lists a sandbox without npctl: cloud PROVIDER servers [READY] | cloud PROVIDER delete NAME |
// cloud PROVIDER id NAME VARIABLE | cloud PROVIDER image NAME VARIABLE. It waits until READY servers are ready.
func scriptCloud(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: cloud PROVIDER servers|delete NAME")
	}
	driver := newRegistry().drivers["sandbox"]
	env := drivers.Env{Log: slog.New(slog.DiscardHandler), Provider: args[0], Installation: "somebody-else",
		Dir: filepath.Join(ts.MkAbs(".npctl"), "providers", args[0])}
	body := driver.Schema().Provider
	values := body.Null().AsValueMap()
	values["delete_time"] = cty.StringVal("0s")
	cloud, err := driver.Open(context.Background(), env, cty.ObjectVal(values))
	ts.Check(err)
	defer cloud.Close() //nolint:errcheck // the sandbox is discarded
	list := func() (instances []resources.Instance, ready int) {
		instances, err := cloud.List(context.Background())
		ts.Check(err)
		for _, i := range instances {
			if i.Status == resources.StatusReady {
				ready++
			}
		}
		return instances, ready
	}
	if args[1] == "image" {
		resolver, _ := drivers.ResolverOf(cloud)
		image, problems, err := resolver.ResolveImage(context.Background(), resources.CloudImageSpec{Image: args[2]})
		ts.Check(err)
		if neg {
			if len(problems) == 0 {
				ts.Fatalf("image %s exists", args[2])
			}
			return
		}
		ts.Setenv(args[3], image.ID)
		return
	}
	instances, ready := list()
	if args[1] == "servers" && len(args) > 2 {
		want, err := strconv.Atoi(args[2])
		ts.Check(err)
		for deadline := time.Now().Add(testutil.Patience); ready != want && time.Now().Before(deadline); instances, ready = list() {
			time.Sleep(10 * time.Millisecond)
		}
	}
	found := false
	for _, i := range instances {
		switch {
		case args[1] == "id":
			if i.Name == args[2] {
				ts.Setenv(args[3], i.ID)
			}
		case args[1] == "servers":
			_, _ = ts.Stdout().Write([]byte(i.Name + " " + string(i.Status) + "\n"))
		case i.Name == args[2]:
			found = true
			ts.Check(cloud.Delete(context.Background(), i.ID, i.Marks))
		}
	}
	if args[1] == "servers" && len(instances) == 0 {
		_, _ = ts.Stdout().Write([]byte("no servers\n"))
	}
	if args[1] == "delete" && found == neg {
		ts.Fatalf("server %s: found is %t", args[2], found)
	}
}

// scriptJSONLines checks that a file is a sequence of JSON documents: jsonlines FILE [COUNT].
func scriptJSONLines(ts *testscript.TestScript, _ bool, args []string) {
	decoder := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	n := 0
	for ; ; n++ {
		var doc map[string]any
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		ts.Check(err)
	}
	if len(args) > 1 && args[1] != strconv.Itoa(n) {
		ts.Fatalf("%s has %d documents, want %s", args[0], n, args[1])
	}
}

// scriptLockID sets LOCKID to the ID of the lock in the output of show -json.
func scriptLockID(ts *testscript.TestScript, _ bool, args []string) {
	var shown struct{ Lock struct{ ID string } }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &shown))
	ts.Setenv("LOCKID", shown.Lock.ID)
}
