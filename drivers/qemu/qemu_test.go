package qemu

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func contextOf(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

func TestSchema(t *testing.T) { drivertest.Schema(t, New().Schema()) }

func TestContractWithFakeQEMU(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup { return fakePlace(t).setup(t) })
}

func TestMachinesWithoutKVMUseTCG(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	c.kvm = func() error { return errors.New("no KVM here") }
	m := create(t, c, p.spec("1", nil))
	if now, _, err := c.read(m.ID); err != nil || now.Accel != accelTCG {
		t.Errorf("accel is %q, %v; want tcg", now.Accel, err)
	}
	_, problems, err := c.ResolveOffer(t.Context(), offerWith(values{"accel": cty.StringVal("kvm")}))
	if err != nil || len(problems) != 1 || problems[0].Attribute != "accel" {
		t.Errorf("problems of an offer with KVM: %+v, %v", problems, err)
	}
}

func TestEndedProcessIsAFailedInstance(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	m := create(t, c, p.spec("1", nil))
	if killed, err := killHolder(c.file(m.ID, filePID)); !killed || err != nil {
		t.Fatalf("killHolder = %t, %v", killed, err)
	}
	testutil.Await(t, "the failure", func() bool { return status(t, c, m.ID) == resources.StatusFailed })
	again, err := c.Create(t.Context(), p.spec("1", nil))
	if err != nil || again.ID != m.ID || again.Status != resources.StatusFailed {
		t.Errorf("Create again = %+v, %v; want the failed machine", again, err)
	}
}

// A pidfile may name a process that has nothing to do with the machine.
func TestProcessWithReusedIDIsNotKilled(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	spec := p.spec("1", nil)
	m := create(t, c, spec)
	pidfile := c.file(m.ID, filePID)
	_, err := killHolder(pidfile)
	testutil.Must(t, err)
	testutil.Await(t, "the end", func() bool { return status(t, c, m.ID) == resources.StatusFailed })
	testutil.WriteFile(t, pidfile, "1\n")
	if pid, err := holderOf(pidfile); pid != 0 || err != nil {
		t.Errorf("holder is %d, %v; want none", pid, err)
	}
	testutil.Must(t, c.Delete(t.Context(), m.ID, spec.Marks))
	if err := syscall.Kill(1, 0); errors.Is(err, syscall.ESRCH) {
		t.Error("process 1 is gone")
	}
}

// npctl may be killed after it has written the description and before it has started QEMU.
func TestAdvanceStartsAMachineThatWasNeverStarted(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	spec := p.spec("1", nil)
	b, err := c.bootOf(spec)
	testutil.Must(t, err)
	m, lock, err := c.reserve(t.Context(), b)
	testutil.Must(t, err)
	testutil.Must(t, lock.Close())
	if got := status(t, c, m.ID); got != resources.StatusPending {
		t.Errorf("status is %s, want pending", got)
	}
	other := p.open(t, limits())
	now, err := other.Advance(t.Context(), spec, c.instance(m))
	if err != nil || now.Status != resources.StatusReady || now.ID != m.ID {
		t.Errorf("Advance = %+v, %v; want a ready machine", now, err)
	}
	testutil.Must(t, c.Delete(t.Context(), m.ID, spec.Marks))
	if got := status(t, c, m.ID); got != "" {
		t.Errorf("the deleted machine is %s", got)
	}
}

// npctl may be killed after it has removed the description, or while it writes one.
func TestDirectoriesOfInterruptedCallsAreRemoved(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	empty, locked, running := c.directoryOf("node-8-deadbeef"), c.directoryOf("node-9-deadbeef"), c.directoryOf("node-7-deadbeef")
	testutil.Must(t, os.MkdirAll(empty, 0o700))
	testutil.WriteFile(t, filepath.Join(locked, fileLock), "")
	testutil.WriteFile(t, filepath.Join(locked, "."+fileDescription+"123"), "{")
	testutil.WriteFile(t, filepath.Join(running, fileLock), "")
	lock, err := tryLock(filepath.Join(running, fileLock), 0, true)
	testutil.Must(t, err)
	defer lock.Close() //nolint:errcheck // a test
	create(t, c, p.spec("1", nil))
	for dir, stays := range map[string]bool{empty: false, locked: false, running: true} {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) == stays {
			t.Errorf("directory %s: %v, want it to stay: %t", dir, err, stays)
		}
	}
}

// A description of npctl that cannot be read hides a machine, so that the list is incomplete.
func TestDamagedDescriptionIsAnError(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	testutil.WriteFile(t, c.file("node-1-deadbeef", fileDescription), "{")
	testutil.WriteFile(t, c.file("web", fileDescription), "{")
	if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "node-1-deadbeef") {
		t.Errorf("List: %v, want an error that names the machine", err)
	}
}

// Programs of args write relative paths into the directory of the machine.
func TestFilesOfOthersInAMachineStay(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	spec := p.spec("1", nil)
	m, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	theirs := c.file(m.ID, "core/dump")
	testutil.WriteFile(t, theirs, "")
	testutil.Must(t, c.Delete(t.Context(), m.ID, spec.Marks))
	if got := status(t, c, m.ID); got != "" {
		t.Errorf("the deleted machine is %s", got)
	}
	if left, err := filepath.Glob(c.file(m.ID, "*")); err != nil || len(left) != 1 {
		t.Errorf("files of the deleted machine are %q, %v", left, err)
	}
	create(t, c, spec)
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
}

// A link with the name of a machine or of an upload leads to files of others.
func TestLinksAreNotFollowed(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	outside := t.TempDir()
	spec := p.spec("1", nil)
	testutil.Must(t, os.MkdirAll(c.machines(), 0o700))
	testutil.Must(t, os.Symlink(outside, c.directoryOf(idOf(spec.Marks))))
	if _, err := c.Create(t.Context(), spec); err == nil {
		t.Error("Create uses a link")
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("Create wrote %v through a link", left)
	}
	content := bytes.Repeat([]byte("x"), 1024)
	upload := drivers.ImageSpec{Marks: spec.Marks, Name: "x", Format: formatRaw, Size: int64(len(content))}
	testutil.WriteFile(t, filepath.Join(outside, "file"), "theirs")
	testutil.Must(t, os.MkdirAll(c.imageStore.dir, 0o700))
	testutil.Must(t, os.Symlink(filepath.Join(outside, "file"), partName(c.path(idOf(spec.Marks)))))
	_, err := c.UploadImage(t.Context(), upload, bytes.NewReader(content))
	testutil.Must(t, err)
	if got := testutil.ReadFile(t, filepath.Join(outside, "file")); got != "theirs" {
		t.Errorf("the upload wrote %d bytes through a link", len(got))
	}
}

func TestTakenPortIsReplaced(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	taken, err := net.Listen("tcp", loopback+":0")
	testutil.Must(t, err)
	defer taken.Close() //nolint:errcheck // a test
	spec := p.spec("1", nil)
	b, err := c.bootOf(spec)
	testutil.Must(t, err)
	m, lock, err := c.reserve(t.Context(), b)
	testutil.Must(t, err)
	m.Port = taken.Addr().(*net.TCPAddr).Port
	testutil.Must(t, errors.Join(c.write(m), lock.Close()))
	now := create(t, c, spec)
	if now.Status != resources.StatusReady || now.Login.ConnectionPort == int64(m.Port) {
		t.Errorf("machine is %+v, want a ready one at another port than %d", now, m.Port)
	}
}

// Two processes that create machines at the same time do not exceed the quota together.
func TestQuotaHoldsForSeveralProcesses(t *testing.T) {
	p := fakePlace(t)
	var wait sync.WaitGroup
	var mu sync.Mutex
	created := 0
	for _, id := range []string{"1", "2", "3", "4"} {
		c := p.open(t, values{"max_cores": cty.NumberIntVal(2)})
		wait.Go(func() {
			spec := p.spec(id, nil)
			i, err := c.Create(t.Context(), spec)
			if err != nil {
				if !errors.Is(err, drivers.ErrQuota) {
					t.Errorf("Create: %v", err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			created++
			t.Cleanup(func() { testutil.Must(t, c.Delete(contextOf(t), i.ID, spec.Marks)) })
		})
	}
	wait.Wait()
	if created != 2 {
		t.Errorf("%d machines with one core each, want 2", created)
	}
}

func TestSeedIsReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), fileSeed)
	offer := poolSettings{User: "zuul", SSHKeys: []string{"ssh-ed25519 AAAA me@here"}, UserData: strings.Repeat("#!/bin/sh\n", 300_000)}
	for range 2 { // the second replaces the first
		testutil.Must(t, writeSeed(path, machine{ID: "node-1-12345678", Name: "np1"}, offer))
	}
	f, err := os.Open(path)
	testutil.Must(t, err)
	defer f.Close() //nolint:errcheck // a test
	info, err := f.Stat()
	testutil.Must(t, err)
	iso, err := iso9660.Read(file.New(f, true), info.Size(), 0, seedBlock)
	testutil.Must(t, err)
	if label := strings.TrimRight(iso.Label(), " \x00"); label != seedLabel {
		t.Errorf("label is %q", label)
	}
	for name, want := range map[string]string{
		"meta-data":   "instance-id: \"node-1-12345678\"\nlocal-hostname: \"np1\"\n",
		"vendor-data": "      - \"ssh-ed25519 AAAA me@here\"\n",
		"user-data":   offer.UserData,
	} {
		entry, err := iso.OpenFile("/"+name, os.O_RDONLY)
		testutil.Must(t, err)
		var content bytes.Buffer
		_, err = content.ReadFrom(entry)
		if err != nil || !strings.HasSuffix(content.String(), want) {
			t.Errorf("%s has %d bytes, %v; want %d", name, content.Len(), err, len(want))
		}
	}
}

func TestImagesThatNameOtherFilesAreRejected(t *testing.T) {
	p := fakePlace(t)
	header := make([]byte, 512)
	copy(header, "QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x0b")
	copy(header[256:], "/etc/shadow")
	testutil.Must(t, os.WriteFile(p.image, header, 0o600))
	if i, err := p.open(t, limits()).Create(t.Context(), p.spec("1", nil)); !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("Create = %s, %v; want ErrRejected", i.ID, err)
	}
}

func TestFilesAreCloudImages(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, values{"image_dir": cty.StringVal(filepath.Dir(p.image))})
	for _, name := range []string{p.image, filepath.Base(p.image)} {
		got, problems, err := c.ResolveImage(t.Context(), resources.CloudImageSpec{Name: "x", Image: name})
		if err != nil || len(problems) > 0 || got.ID != p.image || got.Format != formatRaw {
			t.Errorf("%s: %+v, %+v, %v", name, got, problems, err)
		}
	}
	_, problems, err := c.ResolveImage(t.Context(), resources.CloudImageSpec{Name: "x", Image: "tinny.raw"})
	if err != nil || len(problems) != 1 || len(problems[0].Suggestions) != 1 || problems[0].Suggestions[0] != "tiny.raw" {
		t.Errorf("problems are %+v, %v; want the near match tiny.raw", problems, err)
	}
}

func TestMissingProgramNamesThePackage(t *testing.T) {
	_, err := New().Open(t.Context(), drivers.Env{Dir: t.TempDir()}, with(New().Schema().Provider, values{"program": cty.StringVal("/nonexistent/qemu")}))
	if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "qemu-system-x86") {
		t.Errorf("error is %v", err)
	}
}

func TestPrivateKeysAreConfigurationErrors(t *testing.T) {
	a, _ := New().Schema().Label.Lookup("ssh_keys")
	for text, ok := range map[string]bool{"ssh-ed25519 AAAA me": true, "-----BEGIN OPENSSH PRIVATE KEY-----\nx": false, "AAAA": false} {
		if err := a.Check(cty.ListVal([]cty.Value{cty.StringVal(text)})); (err == nil) != ok {
			t.Errorf("%.10s: %v", text, err)
		}
	}
}
