package reconcile_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
)

// mishap is one way in which a rebuild fails.
type mishap struct {
	name    string
	mood    string           // mood of the build script
	qemu    string           // mood of qemu-img
	fault   emulator.Fault   // of the clouds
	more    []emulator.Fault // additional faults
	tamper  func(*rebuildLab, *http.Request) error
	crowd   bool // another program fills the disk
	small   bool // only on a small disk
	says    string
	passing bool // one apply succeeds despite it
}

// longer is a number of faulty responses that exceeds the retries of the driver.
const longer = 20

// mishaps is the list of all mishaps. The error of an apply that meets one must contain the text of its field says.
var mishaps = []mishap{
	{name: "build fails", mood: "fails", says: "no such mirror"},
	{name: "build takes too long", mood: "hangs", says: "300ms"},
	{name: "build takes too long and does not listen", mood: "deaf", says: "300ms"},
	{name: "build leaves nothing", mood: "nothing", says: "did not create"},
	{name: "build leaves an empty file", mood: "empty", says: "is empty"},
	{name: "build leaves a web page", mood: "html", says: "does not have the header of a qcow2 image"},
	{name: "disk full in the build", mood: "no-space", says: "No space left on device"},
	{name: "real disk full in the build", mood: "full-disk", small: true, says: "No space left on device"},
	{name: "real disk full before the build", crowd: true, small: true, says: "not enough disk space"},
	{name: "real disk full in the conversion", mood: "crowds", small: true, says: "No space left on device"},
	{name: "image cannot be read", mood: "corrupt", says: "corrupt"},
	{name: "file too large in the conversion", qemu: "file-too-large", says: "File too large"},
	{name: "conversion crashes", qemu: "crashes", says: "segmentation fault"},
	{name: "conversion leaves half a file", qemu: "half", says: "exit code 1"},

	{name: "image record refused", fault: emulator.Fault{Operation: "image.create", Action: emulator.Answer, Status: 403, Times: 1}, says: "403"},
	{name: "image record over quota", fault: emulator.Fault{Operation: "image.create", Action: emulator.OverQuota, Times: 1}, says: "over quota"},
	{name: "image record throttled", fault: emulator.Fault{Operation: "image.create", Action: emulator.Answer, Status: 429, RetryAfter: 3 * time.Second, Times: 2}, passing: true},
	{name: "image record made and the answer lost", fault: emulator.Fault{Operation: "image.create", Action: emulator.LostAfter, Times: 1}, passing: true},
	{name: "image record comes late", fault: emulator.Fault{Operation: "image.create", Action: emulator.LateEffect, Delay: 2 * time.Minute, Times: 1}, passing: true},
	{name: "image record listed late", fault: emulator.Fault{Operation: "image.create", Action: emulator.LateListing, Delay: 20 * time.Second, Times: 1}, passing: true},
	{name: "image record not listed and the upload fails", fault: emulator.Fault{Operation: "image.create", Action: emulator.LateListing, Delay: time.Minute, Times: 1},
		more: []emulator.Fault{{Operation: "image.upload", Action: emulator.Answer, Status: 500, Times: longer},
			{Operation: "image.delete", Action: emulator.Answer, Status: 500, Times: longer}}, says: "500"},
	{name: "image record hangs", fault: emulator.Fault{Operation: "image.create", Action: emulator.HangAfter, Times: 1}, passing: true},

	{name: "upload answered 500", fault: emulator.Fault{Operation: "image.upload", Action: emulator.Answer, Status: 500, Times: 1}, passing: true},
	{name: "upload answered 503 with Retry-After", fault: emulator.Fault{Operation: "image.upload", Action: emulator.Answer, Status: 503, RetryAfter: 2 * time.Second, Times: 5}, passing: true},
	{name: "upload answered 500 again and again", fault: emulator.Fault{Operation: "image.upload", Action: emulator.Answer, Status: 500, Times: longer}, says: "500"},
	{name: "upload too large for the cloud", fault: emulator.Fault{Operation: "image.upload", Action: emulator.Answer, Status: 413, Times: 1}, says: "413"},
	{name: "upload hangs before anything arrives", fault: emulator.Fault{Operation: "image.upload", Action: emulator.HangBefore, Times: 1}, passing: true},
	{name: "upload arrives and no answer comes", fault: emulator.Fault{Operation: "image.upload", Action: emulator.HangAfter, Times: 1}, says: "upload"},
	{name: "upload arrives and the answer is lost", fault: emulator.Fault{Operation: "image.upload", Action: emulator.LostAfter, Times: 1}, passing: true},
	{name: "upload cut in the middle", fault: emulator.Fault{Operation: "image.upload", Action: emulator.CutUpload, Times: 1}, passing: true},
	{name: "image stays in saving", fault: emulator.Fault{Operation: "image.upload", Action: emulator.StuckSaving, Times: 1}, says: "no answer within 10m"},
	{name: "upload damaged in transfer", tamper: flip, passing: true},
	{name: "upload arrives short", tamper: shorten, passing: true},
	{name: "image deleted during the upload", tamper: vanish, says: "upload"},
	{name: "connection reset at the upload, and at its removal", tamper: reset,
		fault: emulator.Fault{Operation: "image.delete", Action: emulator.LostBefore, Times: longer}, says: "reset by peer"},
	{name: "interrupted in the upload", tamper: interrupted, says: "interrupted"},
	{name: "killed in the upload", tamper: killed, says: "killed"},

	{name: "delete refused: in use", fault: emulator.Fault{Operation: "image.delete", Action: emulator.Answer, Status: 409, Times: longer}, says: "in use"},
	{name: "delete refused: forbidden", fault: emulator.Fault{Operation: "image.delete", Action: emulator.Answer, Status: 403, Times: longer}, says: "403"},
	{name: "delete answered 500 again and again", fault: emulator.Fault{Operation: "image.delete", Action: emulator.Answer, Status: 500, Times: longer}, says: "500"},
	{name: "delete answered 503 once", fault: emulator.Fault{Operation: "image.delete", Action: emulator.Answer, Status: 503, Times: 1}, passing: true},
	{name: "delete done and the answer lost", fault: emulator.Fault{Operation: "image.delete", Action: emulator.LostAfter, Times: 1}, passing: true},
	{name: "delete hangs", fault: emulator.Fault{Operation: "image.delete", Action: emulator.HangBefore, Times: 1}, passing: true},
	{name: "deleted image listed for a while", fault: emulator.Fault{Operation: "image.delete", Action: emulator.LateListing, Delay: 20 * time.Second, Times: 1}, passing: true},

	{name: "clouds cannot be listed", fault: emulator.Fault{Operation: "image.list", Action: emulator.Answer, Status: 503, Times: longer}, passing: true},
	{name: "lists are cut", fault: emulator.Fault{Operation: "image.list", Action: emulator.Truncate, Times: 2}, passing: true},
}

// tamper changes one upload between npctl and the clouds.
type tamper struct {
	do func(*rebuildLab, *http.Request) error
}

// tampering inserts the tamper of the lab before the clouds.
func (r *rebuildLab) tampering(inner http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPut && strings.HasSuffix(req.URL.Path, "/file") {
			r.mu.Lock()
			meddler := r.tamper
			r.tamper = nil
			if meddler != nil {
				r.seen["tamper"]++
			}
			r.mu.Unlock()
			if meddler != nil {
				req = req.Clone(req.Context())
				if err := meddler.do(r, req); err != nil {
					return nil, err
				}
			}
		}
		return inner.RoundTrip(req)
	})
}

// reader is a body that calls once at the first read.
type reader struct {
	io.ReadCloser
	once func([]byte)
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 && r.once != nil {
		r.once(p[:n])
		r.once = nil
	}
	return n, err
}

func flip(_ *rebuildLab, req *http.Request) error {
	req.Body = &reader{req.Body, func(p []byte) { p[0] ^= 1 }}
	return nil
}

func shorten(_ *rebuildLab, req *http.Request) error {
	whole, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	req.ContentLength--
	req.Body = io.NopCloser(bytes.NewReader(whole[:req.ContentLength]))
	return nil
}

func vanish(r *rebuildLab, req *http.Request) error {
	id := strings.Split(strings.TrimSuffix(req.URL.Path, "/file"), "/")
	req.Body = &reader{req.Body, func([]byte) {
		for _, cloud := range r.driver.Clouds {
			_ = cloud.Remove(id[len(id)-1]) // one of them has it
		}
	}}
	return nil
}

func reset(*rebuildLab, *http.Request) error { return errTampered }

func interrupted(r *rebuildLab, req *http.Request) error {
	req.Body = &reader{req.Body, func([]byte) { r.watch.interrupt() }}
	return nil
}

func killed(r *rebuildLab, req *http.Request) error {
	req.Body = &reader{req.Body, func([]byte) { r.kill.Strike("in the upload") }}
	return nil
}

// befall arranges the mishap and returns a function that reports whether it occurred.
func (r *rebuildLab) befall(t *testing.T, m mishap) (came func() bool) {
	t.Helper()
	for name, text := range map[string]string{"mood": m.mood, "qemu-mood": m.qemu} {
		if text != "" {
			r.file(name, text)
		}
	}
	r.mu.Lock()
	before := r.seen[m.fault.Operation] + r.seen["tamper"]
	r.tamper = nil
	if m.tamper != nil {
		r.tamper = &tamper{do: m.tamper}
	}
	r.mu.Unlock()
	r.faults(t, m)
	if m.crowd {
		crowd := filepath.Join(r.dir, "images", "of-others.bin")
		r.file("images/of-others.bin", strings.Repeat("x", 64<<20))
		return func() bool { return os.Remove(crowd) == nil }
	}
	hits := r.read("hits")
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if m.mood+m.qemu != "" {
			return strings.HasSuffix(r.read("hits"), m.mood+m.qemu+"\n") && r.read("hits") != hits
		}
		return r.seen[m.fault.Operation]+r.seen["tamper"] > before
	}
}

// faults sets the faults of the mishap in every cloud, and removes all others.
func (r *rebuildLab) faults(t *testing.T, m mishap) {
	t.Helper()
	var faults []emulator.Fault
	if m.fault.Operation != "" {
		faults = append(append(faults, m.fault), m.more...)
	}
	for _, cloud := range r.driver.Clouds {
		testutil.Must(t, cloud.SetFaults(faults...))
	}
}

func (r *rebuildLab) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(r.dir, name)) // none is empty
	return string(text)
}

// smallDisk mounts a small file system on the images directory, if the caller is root.
func (r *rebuildLab) smallDisk(t *testing.T) {
	t.Helper()
	dir := filepath.Join(r.dir, "images")
	testutil.Must(t, os.Mkdir(dir, 0o700))
	if os.Geteuid() != 0 || unix.Mount("tmpfs", dir, "tmpfs", 0, "size=300m") != nil {
		t.Log("no small disk: only root may mount one")
		return
	}
	r.small = true
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}
