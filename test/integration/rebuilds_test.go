//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// rebuilt is the configuration of an image for two providers that need different formats.
const rebuilt = settings + `
diskimage "debian" {
  builder "exec" {
    command = ["sh", "build.sh"]
    formats = ["qcow2"]
  }
  keep = 2
}
label "debian" { min_ready = 0 }
provider "openstack" "one" {
  cloud          = "mine"
  image_format   = "raw"
  rate           = 0
  api_timeout    = "4s"
  upload_timeout = "30s"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "debian" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
provider "openstack" "two" {
  cloud          = "mine"
  image_format   = "qcow2"
  rate           = 0
  api_timeout    = "4s"
  upload_timeout = "30s"
  pool "main" {
    networks = ["private"]
    label "debian" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`

// rebuildScript creates the image, or once the corrupt one, if a file of that name exists.
const rebuildScript = `
cp good.qcow2 "$NPCTL_OUTPUT.qcow2"
[ ! -e corrupt.qcow2 ] || mv corrupt.qcow2 "$NPCTL_OUTPUT.qcow2"
`

// limitedQemuImg is a qemu-img that cannot write large files. npctl runs it in a sandbox, so that it can keep no files
// of its own.
const limitedQemuImg = `#!/bin/sh
if [ "$1" = convert ]; then
  trap '' XFSZ
  ulimit -f 64
fi
exec QEMU "$@"
`

// rebuildFault is one way in which a rebuild fails.
type rebuildFault struct {
	name    string
	corrupt bool                   // the build leaves an image with invalid tables
	qemu    bool                   // qemu-img cannot write large files
	call    proxyFault             // fault in a call of Glance
	lab     func(*rebuilding)      // fault in Glance itself or the configuration, until npctl has ended
	came    func(*rebuilding) bool // reports whether it occurred, if the other fields cannot show that
	says    string                 // output of the apply that meets it; empty if the apply succeeds
	pass    bool                   // one apply succeeds despite it
}

// rebuildFaults contains the faults of five rebuilds: those that only Glance and qemu-img themselves show. All others, of
// builds, responses and deletions, are in TestTenRebuildsWithEveryMishap of package reconcile.
var rebuildFaults = [][]rebuildFault{
	{
		{name: "Glance cannot store", lab: (*rebuilding).moveStore, came: status(http.MethodPut, 500), says: "upload"},
		{name: "image protected", lab: (*rebuilding).protect, came: status(http.MethodDelete, 403), says: "delete image"},
	}, {
		{name: "image cannot be read", corrupt: true, says: "corrupt"},
		{name: "upload cut in the middle", call: proxyFault{on: http.MethodPut, do: halve}, pass: true},
		{name: "delete done and the answer lost", call: proxyFault{on: http.MethodDelete, do: lose}},
	}, {
		{name: "disk of Glance full", lab: (*rebuilding).storeFull, came: status(http.MethodPut, 413), says: "413"},
		{name: "image record created and the answer lost", call: proxyFault{on: http.MethodPost, do: lose}, pass: true},
	}, {
		{name: "conversion writes too much", qemu: true, says: "File too large"},
		{name: "upload damaged in transfer", call: proxyFault{on: http.MethodPut, do: damage}, pass: true},
	}, {
		{name: "image record created after the timeout", lab: (*rebuilding).shortenUploadTimeout, call: proxyFault{on: http.MethodPost, do: late}, says: "upload"},
		{name: "Glance hangs in the upload", lab: (*rebuilding).shortenUploadTimeout, call: proxyFault{on: http.MethodPut, do: (*rebuilding).pauseGlance}, says: "no answer within 6s"},
		{name: "killed in the upload", call: proxyFault{on: http.MethodPut, do: kill}},
	},
}

// TestOpenStackRebuildsWithFaults rebuilds an image five times on a real Glance, each time with several faults. At
// every moment both providers must have a recorded image that nodes can boot from; in the end the disk and Glance must
// contain exactly the kept builds.
func TestOpenStackRebuildsWithFaults(t *testing.T) {
	p := newProject(t).createUsualObjects()
	before := p.things()
	r := newRebuilding(t, p)
	for range 2 {
		r.replace = true
		r.rebuild()
	}
	for _, faults := range rebuildFaults {
		r.replace = true
		for _, m := range faults {
			r.applyWithFault(m)
			r.replace = r.replace || m.pass // the image was rebuilt, and the next fault needs another rebuild
		}
		r.rebuild()
		r.checkExactly(before)
	}
	r.place.change("min_ready = 0", "min_ready = 1")
	r.place.mustRun(0, "apply", "-auto-approve").contains("1 launched") // after all that, it boots
	if r.looks == 0 {
		t.Error("Glance was never checked")
	}
	t.Logf("checked Glance %d times", r.looks)
	r.close() // the next command removes every image
	r.place.gone(p, before)
}

// rebuilding is a place with a fault proxy before Glance.
type rebuilding struct {
	*faultProxy
	t       *testing.T
	p       *project
	place   *place
	corrupt string // an image with invalid tables
	replace bool   // a rebuild is still required
	newest  string
	undo    func() error // of the change of Glance
}

func newRebuilding(t *testing.T, p *project) *rebuilding {
	t.Helper()
	r := &rebuilding{t: t, p: p}
	r.faultProxy = newFaultProxy(t, r)
	r.place = p.newPlace(rebuilt)
	r.file("build.sh", rebuildScript)
	r.images()
	testutil.Must(t, os.Mkdir(filepath.Join(r.place.dir, "bin"), 0o700))
	for i, variable := range r.place.env {
		if path, ok := strings.CutPrefix(variable, "PATH="); ok {
			r.place.env[i] = "PATH=" + filepath.Join(r.place.dir, "bin") + ":" + path
		}
	}
	return r
}

func (r *rebuilding) file(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.place.dir, name)
	testutil.Must(r.t, os.MkdirAll(filepath.Dir(path), 0o700))
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // G306: scripts
		r.t.Fatal(err)
	}
}

// limitQemuImg replaces the real qemu-img by the limited one until undo is called.
func (r *rebuilding) limitQemuImg() (undo func()) {
	r.t.Helper()
	qemu, err := exec.LookPath("qemu-img")
	testutil.Must(r.t, err)
	r.file("bin/qemu-img", strings.ReplaceAll(limitedQemuImg, "QEMU", qemu))
	return func() {
		if err := os.Remove(filepath.Join(r.place.dir, "bin", "qemu-img")); err != nil {
			r.t.Error(err)
		}
	}
}

// images creates the image of every successful build, and one with invalid tables.
func (r *rebuilding) images() {
	r.t.Helper()
	raw, good := filepath.Join(r.place.dir, "good.raw"), filepath.Join(r.place.dir, "good.qcow2")
	r.file("good.raw", strings.Repeat("npctl", 1<<18)+strings.Repeat("\x00", 1<<18)) // 1.5 MiB
	if out, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, good).CombinedOutput(); err != nil {
		r.t.Fatalf("qemu-img: %v\n%s", err, out)
	}
	text, err := os.ReadFile(good)
	testutil.Must(r.t, err)
	l1 := text[40:48] // offset of the L1 table, big endian; docs/interop/qcow2.txt of QEMU
	at := int(l1[5])<<16 | int(l1[6])<<8 | int(l1[7])
	copy(text[at:], "\x80\x00\x00\x00\x00\xff\xff\xff")
	r.corrupt = string(text)
}

// apply runs npctl and passes its process to the proxy.
func (r *rebuilding) apply() outcome {
	r.t.Helper()
	args := []string{"apply", "-auto-approve"}
	if r.replace {
		args = append(args, "-replace=diskimage.debian")
	}
	cmd, stdout, stderr := r.place.command(r.t.Context(), args...)
	began := time.Now()
	testutil.Must(r.t, cmd.Start())
	r.setProcess(cmd.Process)
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	o := outcome{r.t, "npctl " + strings.Join(args, " "), cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	r.t.Logf("%s: %d after %.1f s: %s", o.command, o.code, time.Since(began).Seconds(), o.last())
	r.checkRecords()
	return o
}

// applyWithFault applies during a fault.
func (r *rebuilding) applyWithFault(m rebuildFault) {
	r.t.Helper()
	r.t.Log("fault:", m.name)
	if m.corrupt {
		r.file("corrupt.qcow2", r.corrupt)
	}
	if m.qemu {
		defer r.limitQemuImg()()
	}
	if m.lab != nil {
		m.lab(r)
	}
	r.setFault(m.call)
	o := r.apply()
	switch {
	case m.pass && o.code != 0, m.says == "" && m.call.do == nil && o.code != 0, m.says != "" && o.code == 0:
		r.t.Errorf("%s: exit code %d\n%s", m.name, o.code, o.text())
	case m.says != "":
		o.contains(m.says)
	}
	if !r.faultOccurred(m) {
		r.t.Errorf("%s: it never came\n%s", m.name, o.text())
	}
	if r.undo != nil {
		r.undoChange()
	}
	r.setFault(proxyFault{})
}

func (r *rebuilding) faultOccurred(m rebuildFault) bool {
	switch {
	case m.corrupt, m.qemu:
		return true // the output of npctl shows that
	case m.came != nil:
		return m.came(r)
	default:
		return r.faultApplied()
	}
}

// facts contains the fields of npctl image show that the test reads.
type facts struct {
	Newest *struct {
		ID string `json:"id"`
	} `json:"newest_build"`
	Failures []json.RawMessage `json:"failures"`
	Builds   []struct {
		ID    string `json:"id"`
		State string `json:"state"`
	} `json:"builds"`
	Uploads []struct {
		ID         string `json:"id"`
		Provider   string `json:"provider"`
		Build      string `json:"build"`
		State      string `json:"state"`
		ExternalID string `json:"cloud_id"`
	} `json:"uploads"`
}

func (r *rebuilding) facts() facts {
	r.t.Helper()
	cmd, stdout, stderr := r.place.command(r.t.Context(), "image", "show", "-json", "debian")
	var shown struct{ Images []facts }
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("npctl image show: %v\n%s", err, stderr)
	}
	if err := json.NewDecoder(bytes.NewReader(stdout.Bytes())).Decode(&shown); err != nil || len(shown.Images) != 1 {
		r.t.Fatalf("npctl image show: %v\n%s", err, stdout)
	}
	return shown.Images[0]
}

// checkRecords compares the output of npctl with Glance: each provider that has ever had an image must have an active one,
// with a ready upload record of a ready build.
func (r *rebuilding) checkRecords() {
	r.t.Helper()
	f := r.facts()
	if f.Newest != nil && f.Newest.ID != r.newest {
		r.newest, r.replace = f.Newest.ID, false // the image was rebuilt
	}
	ready := map[string]bool{}
	for _, b := range f.Builds {
		ready[b.ID] = b.State == "ready"
	}
	active, usable := r.active(), map[string]bool{}
	for _, u := range f.Uploads {
		if u.State == "ready" && ready[u.Build] && active[u.ExternalID] == u.Provider {
			usable[u.Provider] = true
		}
	}
	for provider := range r.had {
		if !usable[provider] {
			r.t.Errorf("provider %s has no usable image on record: %+v, active are %v", provider, f.Uploads, active)
		}
	}
}

// active returns the providers of the active images with npctl's ownership tags, by image ID.
func (r *rebuilding) active() map[string]string {
	found := map[string]string{}
	for _, thing := range of(r.p.thingsOfKind("image"), "image") {
		if thing.state == "active" && thing.object["npctl_installation"] != nil {
			found[thing.object["id"].(string)] = text(thing.object["npctl_provider"])
		}
	}
	return found
}

// rebuild applies, without faults, until nothing is left to do.
func (r *rebuilding) rebuild() {
	r.t.Helper()
	for range 5 {
		o := r.apply()
		leaks := strings.Contains(o.stdout, "has our ownership tags and ")
		switch {
		case o.code != 0:
			r.t.Errorf("without faults:\n%s", o.text())
		case o.last() == "No changes." && !leaks && !r.replace:
			return
		case leaks:
			<-time.After(time.Second) // leak_age
		}
	}
	r.t.Fatalf("five applies later there is still something to do:\n%s", r.place.run("plan").text())
}

// checkExactly fails the test unless records, Glance and disk contain exactly the expected objects.
func (r *rebuilding) checkExactly(before map[string]thing) {
	r.t.Helper()
	f := r.facts()
	var files, uploads []string
	for _, b := range f.Builds {
		files = append(files, "debian-"+b.ID+".qcow2", "debian-"+b.ID+".raw")
	}
	there := map[string]int{}
	for _, u := range f.Uploads {
		uploads = append(uploads, u.ExternalID)
		there[u.Provider]++
	}
	if len(f.Builds) != 2 || there["one"] != 2 || there["two"] != 2 || len(f.Failures) > 0 {
		r.t.Errorf("on record are %d builds, uploads %v, failures %s", len(f.Builds), there, f.Failures)
	}
	entries, err := filepath.Glob(filepath.Join(r.place.dir, "images", "*"))
	testutil.Must(r.t, err)
	var names []string
	for _, path := range entries {
		if name := filepath.Base(path); name != ".npctl-builds" {
			names = append(names, name)
		}
	}
	slices.Sort(files)
	if !slices.Equal(names, files) {
		r.t.Errorf("the images directory holds %v, want %v", names, files)
	}
	var stored []string
	for id, thing := range without(r.p.things(), before) {
		stored = append(stored, id)
		if thing.kind != "image" || thing.state != "active" {
			r.t.Errorf("%s is there", thing)
		}
	}
	slices.Sort(stored)
	slices.Sort(uploads)
	if !slices.Equal(stored, uploads) {
		r.t.Errorf("Glance has %v, on record are %v", stored, uploads)
	}
}

// Faults in Glance itself.

func (r *rebuilding) store() string { return filepath.Join(r.p.lab.Dir(), "data", "glance", "images") }

// change changes Glance until takeBack is called or the test ends.
func (r *rebuilding) change(do, undo func() error) {
	r.t.Helper()
	testutil.Must(r.t, do())
	r.undo = undo
	r.t.Cleanup(func() {
		if r.undo != nil {
			r.undoChange()
		}
	})
}

func (r *rebuilding) undoChange() {
	r.t.Helper()
	if err := r.undo(); err != nil {
		r.t.Error(err)
	}
	r.undo = nil
}

func (r *rebuilding) moveStore() {
	r.change(func() error { return os.Rename(r.store(), r.store()+".away") },
		func() error { return os.Rename(r.store()+".away", r.store()) })
}

func (r *rebuilding) storeFull() {
	r.change(func() error {
		return r.inMountsOfGlance("mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "tmpfs", r.store())
	},
		func() error { return r.inMountsOfGlance("umount", r.store()) })
}

// inMountsOfGlance runs a command in the mount namespace of Glance, which may differ from that of the test.
func (r *rebuilding) inMountsOfGlance(command ...string) error {
	text, err := os.ReadFile(filepath.Join(r.p.lab.Dir(), "run", "glance.pid"))
	if err != nil {
		return err
	}
	pid, _, _ := strings.Cut(string(text), " ")
	out, err := exec.Command("nsenter", append([]string{"--target", pid, "--mount", "--"}, command...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return nil
}

// shortenUploadTimeout sets a short upload_timeout.
func (r *rebuilding) shortenUploadTimeout() {
	swap := func(from, to string) func() error {
		return func() error {
			r.place.write(strings.ReplaceAll(r.place.read(), from, to))
			return nil
		}
	}
	long, short := `upload_timeout = "30s"`, `upload_timeout = "6s"`
	r.change(swap(long, short), swap(short, long))
}

// protect forbids the deletion of the active images.
func (r *rebuilding) protect() {
	r.change(func() error { return r.setProtected(true) }, func() error { return r.setProtected(false) })
}

func (r *rebuilding) setProtected(value bool) error {
	for id := range r.active() {
		if err := r.patch(id, fmt.Sprintf(`[{"op": "replace", "path": "/protected", "value": %t}]`, value)); err != nil {
			return err
		}
	}
	return nil
}
