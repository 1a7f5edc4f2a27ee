//go:build gearman

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"

	wire "github.com/npctl/npctl/internal/gearman"
)

// TestRealBuildHosts runs build hosts, npctl and a real gearmand as processes and kills some of them. It needs
// gearmand, stunnel4 and qemu-img; test/gearman/install.sh installs them.
func TestRealBuildHosts(t *testing.T) {
	t.Parallel()
	npctl := builtNpctl(t)
	for name, test := range map[string]struct {
		open func(*testing.T, string) *shop
		run  func(*shop)
	}{
		"BuildsGoWhereTheyCanBeMade":                   {newShop, tour},
		"BuildsGoWhereTheyCanBeMadeOverTLS":            {newTLSShop, tour},
		"OverTLSNobodyIsLetInWithoutACertificate":      {newTLSShop, withoutCertificate},
		"HostKilledInMidBuildLeavesItToAnother":        {newShop, killedBuilding},
		"HostKilledInMidBuildThatNobodyElseCanMake":    {newShop, killedAlone},
		"HostKilledAfterItsBuildBeforeItsAnswer":       {newShop, killedWithABuild},
		"HostKilledInMidBuildComesBack":                {newShop, killedAndBack},
		"HostKilledInMidUpload":                        {newTLSShop, killedUploading},
		"HostStoppedFinishesItsBuild":                  {newShop, stoppedInTime},
		"HostStoppedLeavesALongBuildToAnother":         {newShop, stoppedTooSoon},
		"HostReloadedInMidBuild":                       {newTLSShop, reloadedBuilding},
		"NpctlKilledInMidBuildGoesOnWithIt":            {newShop, mainKilledBuilding},
		"NpctlAndThenTheHostKilledInMidBuild":          {newShop, bothKilledBuilding},
		"NpctlKilledInMidBuildFindsItReady":            {newShop, mainKilledBuildReady},
		"NpctlKilledInMidUpload":                       {newShop, mainKilledUploading},
		"JobServerRestartedInMidBuild":                 {newTLSShop, serverKilled},
		"BuildWhoseHostIsAwayIsDeletedWhenItIsBack":    {newShop, deletedWhileAway},
		"UnfinishedBuildIsDroppedWhenNobodyIsMakingIt": {newShop, droppedUnfinished},
		"UnfinishedBuildThatGoesOnIsStopped":           {newShop, droppedBuilding},
		"HostReportsANewBuildOfZuul":                   {newTLSShop, newZuulBuild},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.run(test.open(t, npctl))
		})
	}
}

// applied runs apply and returns the resulting builds of debian and fedora.
func (s *shop) applied() map[string]build {
	s.t.Helper()
	s.apply().succeeds()
	return s.kept("debian", "fedora")
}

// kept returns the only build of each image, by build ID, with the host of its record.
func (s *shop) kept(images ...string) map[string]build {
	s.t.Helper()
	builds := map[string]build{}
	for _, image := range images {
		out := s.npctlMain("image", "show", "-json", image).succeeds()
		var doc imagesDocument
		testutil.Must(s.t, json.Unmarshal([]byte(out), &doc))
		if len(doc.Images) != 1 || len(doc.Images[0].Builds) != 1 || doc.Images[0].Builds[0].State != resources.StateReady {
			s.t.Fatalf("want one ready build of image %s, got\n%s", image, out)
		}
		record := doc.Images[0].Builds[0]
		b := build{image, record.Host}
		for _, file := range b.files(record.ID) {
			if !slices.Contains(s.onDisk(b.host), file) {
				s.t.Fatalf("host %s has no file %s of\n%s", b.host, file, out)
			}
		}
		builds[record.ID] = b
	}
	return builds
}

func idsOf(builds map[string]build) (ids []string) {
	for id := range maps.Keys(builds) {
		ids = append(ids, id)
	}
	return ids
}

// tour runs all operations without failures.
func tour(s *shop) {
	hosts := map[string]*program{"a": s.host("a"), "b": s.host("b"), "c": s.host("c")}
	s.offered(offers("a b c"))

	release, release2 := s.hold("debian"), s.hold("fedora")
	apply := s.apply()
	s.begun(2) // at the same time, on different hosts
	during := offers("a b c")
	for _, line := range s.lines("begun") {
		id, _, _ := strings.Cut(line, " ")
		during["image-delete:"+id] = jobs{Workers: uploadWorkers} // the host accepts a request to stop it
	}
	during["image-build:debian"] = jobs{Running: 1, Workers: 2}
	during["image-build:fedora"] = jobs{Running: 1, Workers: 2}
	s.offered(during)
	release()
	release2()
	apply.succeeds()
	builds := s.kept("debian", "fedora")
	s.offered(offers("a b c", idsOf(builds)...))
	s.everywhere(builds)
	s.settled()

	for name, host := range hosts { // a restarted host offers the builds on its disk
		host.signal(syscall.SIGTERM)
		host.succeeds()
		others := offers("a b c")
		for _, image := range hostImages[name] {
			f := others["image-build:"+image]
			f.Workers--
			others["image-build:"+image] = f
			if f.Workers == 0 {
				delete(others, "image-build:"+image)
			}
		}
		for id, b := range builds {
			if b.host != name {
				others["image-upload:"+id], others["image-delete:"+id] = jobs{Workers: uploadWorkers}, jobs{Workers: uploadWorkers}
			}
		}
		s.offered(others)
		s.host(name)
		s.offered(offers("a b c", idsOf(builds)...))
	}
	s.settled()

	// A new build of an image replaces the previous one.
	s.npctlMain("image", "build", "debian", "-auto-approve").succeeds()
	s.apply().succeeds()
	again := s.kept("debian", "fedora")
	for id, b := range builds {
		if _, kept := again[id]; kept != (b.image == "fedora") {
			s.t.Errorf("build %s of %s after another build of debian: kept is %t", id, b.image, kept)
		}
	}
	s.offered(offers("a b c", idsOf(again)...))
	s.everywhere(again)

	for id, b := range again {
		if b.image == "debian" {
			s.npctlMain("image", "delete", "debian", "-build="+id[:8], "-auto-approve").succeeds()
			delete(again, id)
		}
	}
	s.offered(offers("a b c", idsOf(again)...))
	s.everywhere(again)
	s.npctlMain("destroy", "-auto-approve").succeeds()
	s.offered(offers("a b c"))
	s.everywhere(nil)
}

// withoutCertificate removes the certificates from the configurations of host a and the main npctl. Only host b offers
// builds.
func withoutCertificate(s *shop) {
	for _, who := range []string{"a", "main"} {
		text := s.read(who + "/npctl.hcl")
		for _, name := range []string{"cert", "key"} {
			before, rest, _ := strings.Cut(text, "\n "+name+" = ")
			_, after, _ := strings.Cut(rest, "\n")
			text = before + "\n" + after
		}
		s.write(who+"/npctl.hcl", text)
	}
	s.host("a")
	s.host("b")
	s.offered(offers("b"))
	s.configure("debian")
	s.apply().succeeds()
	s.everywhere(s.kept("debian"))
	if builds := s.kept("debian"); len(builds) != 1 || builds[idsOf(builds)[0]].host != "b" {
		s.t.Errorf("builds are %v, want one on b", builds)
	}
}

// ongoing is a running build that ends after release is called.
type ongoing struct {
	id          string
	host, apply *program
	release     func()
}

// building starts the only build host and a build on it.
func (s *shop) building(image, host string, args ...string) (b ongoing) {
	s.t.Helper()
	s.configure(image)
	b.host = s.host(host, args...)
	s.offered(offers(host))
	b.release = s.hold(image)
	b.apply = s.apply()
	b.id, _ = s.begun(1)
	return b
}

// buildingOnEither starts the build hosts a and b and a build of debian on one of them, and returns the name of that host.
func (s *shop) buildingOnEither() (b ongoing, first string) {
	s.t.Helper()
	s.configure("debian")
	hosts := map[string]*program{"a": s.host("a"), "b": s.host("b")}
	s.offered(offers("a b"))
	b.release = s.hold("debian")
	b.apply = s.apply()
	b.id, first = s.begun(1)
	b.host = hosts[first]
	return b, first
}

func killedBuilding(s *shop) {
	b, first := s.buildingOnEither()
	id := b.id
	b.host.kill()
	again, second := s.begun(2)
	if again != id || second == first {
		s.t.Fatalf("build %s, lost with %s, was begun again as %s on %s", id, first, again, second)
	}
	during := offers(second)
	during["image-build:debian"] = jobs{Running: 1, Workers: 1}
	during["image-delete:"+id] = jobs{Workers: uploadWorkers}
	s.offered(during)
	b.release()
	b.apply.succeeds()
	if !slices.Contains(s.lines("made"), id+" "+second) { // the script of the killed host may or may not have ended
		s.t.Errorf("made is %v", s.lines("made"))
	}
	s.host(first)
	s.offered(offers("a b", id))
	s.everywhere(map[string]build{id: {"debian", second}})
	s.settled()
}

func killedAlone(s *shop) {
	b := s.building("suse", "c")
	b.host.kill()
	b.release()
	b.apply.fails("image-build:suse: no worker offers the function at " + s.gearman.Addr)
	s.offered(map[string]jobs{"image-build:suse": {Queued: 1}}) // gearmand counts the job without client and worker as queued
	s.host("c")
	s.offered(offers("c"))
	s.apply().succeeds()
	builds := s.kept("suse")
	s.offered(offers("c", idsOf(builds)...))
	s.everywhere(builds)
	s.settled()
}

func killedAndBack(s *shop) {
	b := s.building("suse", "c")
	b.host.kill()
	s.host("c")
	again, _ := s.begun(2)
	s.equal("build that is begun again", again, b.id)
	b.release()
	b.apply.succeeds()
	s.equal("builds made", s.lines("made"), []string{b.id + " c"})
	s.everywhere(map[string]build{b.id: {"suse", "c"}})
	s.settled()
}

// uploading waits until an upload has started.
func (s *shop) uploading() {
	s.t.Helper()
	s.until("an upload", func() (bool, any) {
		images := fmt.Sprint(s.cloud("one"), s.cloud("two"))
		return strings.Contains(images, "pending"), images
	})
}

func killedUploading(s *shop) {
	s.configure("debian")
	host := s.host("a")
	s.offered(offers("a"))
	end := s.slowUploads()
	apply := s.apply()
	s.uploading()
	id, _ := s.begun(1)
	host.kill()
	apply.fails("no available host has it")
	s.equal("images in the clouds", append(s.cloud("one"), s.cloud("two")...), []string{})
	end()
	s.host("a")
	s.offered(offers("a", id))
	s.apply().succeeds()
	s.everywhere(map[string]build{id: {"debian", "a"}})
	s.settled()
}

func stoppedInTime(s *shop) {
	b := s.building("debian", "a")
	b.host.signal(syscall.SIGTERM)
	s.until("the host to take no more jobs", func() (bool, any) {
		f, err := s.functions()
		return err == nil && f["image-delete:"+b.id] == jobs{}, f
	})
	b.release()
	b.host.succeeds()
	b.apply.fails("no available host has it") // the upload fails, not the build
	s.host("a")
	s.offered(offers("a", b.id))
	s.apply().succeeds()
	s.equal("builds made", s.lines("made"), []string{b.id + " a"})
	s.everywhere(map[string]build{b.id: {"debian", "a"}})
	s.settled()
}

func stoppedTooSoon(s *shop) {
	b := s.building("debian", "a", "-grace=100ms")
	s.host("b")
	b.host.signal(syscall.SIGTERM)
	b.host.succeeds()
	s.equal("files of the host that was stopped", s.onDisk("a"), []string{})
	again, second := s.begun(2)
	s.equal("build that goes on elsewhere", again+" "+second, b.id+" b")
	b.release()
	b.apply.succeeds()
	s.everywhere(map[string]build{b.id: {"debian", "b"}})
	s.settled()
}

func reloadedBuilding(s *shop) {
	b := s.building("debian", "a")
	text := s.read("a/npctl.hcl")
	during := map[string]jobs{"image-build:debian": {Running: 1, Workers: 1}, "image-delete:" + b.id: {Workers: uploadWorkers}}

	s.write("a/npctl.hcl", strings.Replace(text, "diskimage", "diksimage", 1))
	b.host.signal(syscall.SIGHUP)
	s.write("a/npctl.hcl", strings.Replace(text, `diskimage "debian"`, `diskimage "arch"`, 1))
	b.host.signal(syscall.SIGHUP)
	during["image-build:arch"] = jobs{Workers: 1}
	s.offered(during)
	b.release()
	b.apply.succeeds()
	s.offered(map[string]jobs{"image-build:arch": {Workers: 1}, "image-upload:" + b.id: {Workers: uploadWorkers}, "image-delete:" + b.id: {Workers: uploadWorkers}})
	s.everywhere(map[string]build{b.id: {"debian", "a"}})

	s.write("a/npctl.hcl", text)
	b.host.signal(syscall.SIGHUP)
	s.offered(offers("a", b.id))
	s.settled()
	b.host.signal(syscall.SIGTERM)
	b.host.succeeds()
}

func mainKilledBuilding(s *shop) {
	s.configure("debian")
	s.host("a")
	s.host("b")
	s.offered(offers("a b"))
	release := s.hold("debian")
	apply := s.apply()
	id, host := s.begun(1)
	apply.kill()
	out := s.npctlMain("plan").succeeds()
	if !strings.Contains(out, "because an earlier step did not finish it (unfinished)") {
		s.t.Errorf("the plan does not go on with build %s:\n%s", id, out)
	}
	apply = s.apply()
	s.joined(id)
	release()
	apply.succeeds()
	s.equal("builds begun", s.lines("begun"), []string{id + " " + host})
	s.offered(offers("a b", id))
	s.everywhere(map[string]build{id: {"debian", host}})
	s.settled()
}

// joined waits until one client waits for the build.
func (s *shop) joined(id string) {
	s.t.Helper()
	s.until("the next npctl to wait for the build", func() (bool, any) {
		found, err := wire.New(s.servers).Find(s.t.Context(), id)
		return found.Clients == 1, fmt.Sprint(found, err)
	})
}

func bothKilledBuilding(s *shop) {
	s.configure("debian")
	hosts := map[string]*program{"a": s.host("a"), "b": s.host("b")}
	s.offered(offers("a b"))
	release := s.hold("debian")
	apply := s.apply()
	id, first := s.begun(1)
	apply.kill()
	apply = s.apply()
	s.joined(id)
	hosts[first].kill()
	again, second := s.begun(2)
	s.equal("build that goes on elsewhere", again, id)
	release()
	apply.succeeds()
	s.offered(offers(second, id))
	s.host(first)
	s.offered(offers("a b", id))
	s.everywhere(map[string]build{id: {"debian", second}})
	s.settled()
}

func mainKilledBuildReady(s *shop) {
	b := s.building("debian", "a")
	b.apply.kill()
	b.release()
	s.offered(offers("a", b.id))
	s.apply().succeeds()
	s.equal("builds begun", s.lines("begun"), []string{b.id + " a"})
	s.everywhere(map[string]build{b.id: {"debian", "a"}})
	s.settled()
}

func mainKilledUploading(s *shop) {
	s.configure("debian")
	host := s.host("a")
	s.offered(offers("a"))
	end := s.slowUploads()
	apply := s.apply()
	s.uploading()
	id, _ := s.begun(1)
	apply.kill()
	host.kill()
	end()
	s.host("a")
	s.offered(offers("a", id))
	s.apply().succeeds()
	s.everywhere(map[string]build{id: {"debian", "a"}})
	s.settled()
}

// killedWithABuild: the answer of the host reaches a job server that is suspended and never reads it.
func killedWithABuild(s *shop) {
	b, first := s.buildingOnEither()
	id := b.id
	s.gearman.Stop()
	b.release()
	s.until("the files of the first build", func() (bool, any) {
		files := s.onDisk(first)
		return slices.Equal(files, build{"debian", first}.files(id)), files
	})
	b.host.kill()
	s.gearman.Kill()
	s.gearman.Start()
	b.apply.succeeds()
	second := map[string]string{"a": "b", "b": "a"}[first]
	kept := map[string]build{id: {"debian", second}}
	if got := s.kept("debian"); !maps.Equal(got, kept) {
		s.t.Fatalf("builds are %v, want %v", got, kept)
	}

	s.host(first)
	copies := []copyOf{{id, first}}
	s.offered(withCopies(offers("a b", id), copies))
	s.everywhereWith(kept, copies)
	s.settled()

	s.npctlMain("apply", "-auto-approve", "-replace=diskimage.debian").succeeds() // deletes the build on both hosts
	replaced := s.kept("debian")
	s.everywhere(replaced)
	s.offered(offers("a b", idsOf(replaced)...))
}

func serverKilled(s *shop) {
	b := s.building("debian", "a")
	s.gearman.Kill()
	s.gearman.Start()
	again, _ := s.begun(2)
	s.equal("build that is begun again", again, b.id)
	b.release()
	b.apply.succeeds()
	s.offered(offers("a", b.id))
	s.equal("builds made", s.lines("made"), []string{b.id + " a"})
	s.everywhere(map[string]build{b.id: {"debian", "a"}})
	s.settled()
}

func deletedWhileAway(s *shop) {
	host := s.host("a")
	fedora := s.host("c")
	s.offered(offers("a c"))
	builds := s.applied()
	host.kill()
	var debian string
	for id, b := range builds {
		if b.image == "debian" {
			debian = id
		}
	}
	s.configure("fedora")
	s.apply().fails("no build host offers image-delete:" + debian)
	s.equal("images in cloud one", len(s.cloud("one")), 1)
	s.host("a")
	s.offered(offers("a c", idsOf(builds)...))
	s.apply().succeeds()
	delete(builds, debian)
	s.offered(offers("a c", idsOf(builds)...))
	s.everywhere(builds)

	fedora.kill()
	s.npctlMain("destroy", "-auto-approve").fails("no build host offers image-delete:" + idsOf(builds)[0])
	s.host("c")
	s.offered(offers("a c", idsOf(builds)...))
	s.npctlMain("destroy", "-auto-approve").succeeds()
	s.offered(offers("a c"))
	s.everywhere(nil)
}

// interruptedBuild starts a build and kills the npctl that requested it.
func (s *shop) interruptedBuild() ongoing {
	s.t.Helper()
	b := s.building("debian", "a")
	b.apply.kill()
	return b
}

func droppedUnfinished(s *shop) {
	b := s.interruptedBuild()
	b.host.kill()
	b.release()
	s.host("a")
	s.offered(offers("a"))
	s.npctlMain("destroy", "-auto-approve").succeeds()
	s.everywhere(nil)
	s.offered(offers("a"))
	s.apply().succeeds()
	s.everywhere(s.kept("debian"))
	s.settled()
}

func droppedBuilding(s *shop) {
	b := s.interruptedBuild()
	s.npctlMain("destroy", "-auto-approve").succeeds()
	s.everywhere(nil)
	s.offered(offers("a"))
	b.release()
	s.apply().succeeds()
	s.everywhere(s.kept("debian"))
	s.settled()
}
