//go:build integration

package serve

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// imageCreate replaces disk-image-create: it is called as `disk-image-create … -t qcow2 … -o NAME …`.
const imageCreate = `#!/bin/sh
while [ $# -gt 0 ]; do
  [ "$1" = -o ] && { printf image >"$2.qcow2"; exit; }
  shift
done
exit 1
`

// nodepoolBuilder is a real nodepool-builder with an image fedora and a fake cloud. Its configuration also has npctl's
// image, without formats: Nodepool deletes builds of images that are not configured, and does not build an image
// without a format.
type nodepoolBuilder struct {
	*site
	configuration string
}

func (s *site) startNodepoolBuilder() *nodepoolBuilder {
	s.t.Helper()
	dir := filepath.Join(s.dir, "nodepool")
	s.must(os.MkdirAll(filepath.Join(dir, "images"), 0o700), dir)
	create := filepath.Join(dir, "image-create")
	s.must(os.WriteFile(create, []byte(imageCreate), 0o700), create)
	host, port, _ := strings.Cut(strings.Split(s.env.Hosts, ",")[0], ":")
	b := &nodepoolBuilder{s, filepath.Join(dir, "nodepool.yaml")}
	text := fmt.Sprintf(`
images-dir: %[1]s/images
build-log-dir: %[1]s/logs
zookeeper-servers:
  - {host: %[2]s, port: %[3]s, chroot: %[4]s}
zookeeper-tls: {cert: %[5]s, key: %[6]s, ca: %[7]s}
labels:
  - name: theirs
providers:
  - name: fake
    driver: fake
    cloud: fake
    region-name: fake-region
    rate: 0.0001
    diskimages:
      - name: fedora
    pools:
      - name: main
        max-servers: 1
        availability-zones: [az1]
        labels:
          - {name: theirs, diskimage: fedora, min-ram: 8192}
diskimages:
  - {name: fedora, formats: [qcow2], elements: [vm], dib-cmd: %[8]s}
  - {name: debian, elements: [vm], dib-cmd: "false"}
`, dir, host, port, s.chroot, s.env.Cert, s.env.Key, s.env.CA, create)
	s.must(os.WriteFile(b.configuration, []byte(text), 0o600), b.configuration)
	b.launcher("start", dir, b.configuration, "nodepool-builder")
	s.t.Cleanup(func() {
		_ = exec.Command("../launcher.sh", "kill", dir).Run() //nolint:noctx // it ends by itself
		if s.t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "nodepool.log"))
			s.t.Logf("nodepool-builder:\n%s", log[max(0, len(log)-logShown):])
		}
	})
	return b
}

func (b *nodepoolBuilder) launcher(arguments ...string) {
	b.t.Helper()
	if out, err := exec.CommandContext(b.t.Context(), "../launcher.sh", arguments...).CombinedOutput(); err != nil {
		b.t.Fatalf("launcher.sh %q: %v\n%s", arguments, err, out)
	}
}

// command runs a command of Nodepool.
func (b *nodepoolBuilder) command(arguments ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), filepath.Join(os.Getenv("NPCTL_TEST_NODEPOOL"), "bin", "nodepool"),
		append([]string{"-c", b.configuration}, arguments...)...)
	cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+filepath.Join(filepath.Dir(b.configuration), "clouds.yaml"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("nodepool %q: %v\n%s", arguments, err, out)
	}
	return string(out)
}

// uploaded counts the ready uploads of an image in a provider.
func (s *site) uploaded(image, provider string) (n int) {
	s.t.Helper()
	for id := range s.builds(image) {
		dir := images + "/" + image + "/builds/" + id + "/providers/" + provider + "/images"
		for _, name := range s.children(dir) {
			if z := s.get(dir + "/" + name); z.is("state", "ready") {
				n++
			}
		}
	}
	return n
}

// A real nodepool-builder and npctl's builder share one ZooKeeper.
func TestNpctlBuildsBesideNodepoolBuilder(t *testing.T) {
	t.Parallel()
	s := newSite(t, cloud{}.String())
	b := s.startNodepoolBuilder()
	s.start()
	s.await("both have uploaded", func() bool { return s.uploaded("debian", "one") == 1 && s.uploaded("fedora", "fake") == 1 })
	const builders = "/nodepool/components/builder"
	if names := s.children(builders); len(names) != 2 {
		t.Errorf("builders are %q", names)
	}
	of := func(image string) (id string) {
		for _, z := range s.builds(image) {
			id = fmt.Sprint(z.doc["builder_id"])
		}
		return id
	}
	if ours, theirs := of("debian"), of("fedora"); len(ours) != 36 || len(theirs) != 36 || ours == theirs {
		t.Errorf("the ids of the builders are %q and %q", ours, theirs)
	}
	s.check("each lists the other's builds", func(t *testing.T) {
		if out := b.command("dib-image-list"); !strings.Contains(out, "debian") || !strings.Contains(out, "fedora") {
			t.Errorf("nodepool dib-image-list: %s", out)
		}
		s.says("fedora", "state", "list")
	})
	s.check("each builds the images that Nodepool's command requests", func(t *testing.T) {
		began := time.Now()
		b.command("image-build", "debian")
		s.await("npctl has built", func() bool { return s.uploaded("debian", "one") == 2 })
		ours := time.Since(began)
		began = time.Now()
		b.command("image-build", "fedora")
		s.await("Nodepool has built", func() bool { return s.uploaded("fedora", "fake") == 2 })
		t.Logf("from the start of the command to the upload: npctl %s, Nodepool %s", ours.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	})
	s.stays("neither deletes the builds of the other", 15*time.Second, func() bool {
		return s.ready("debian") == 2 && s.ready("fedora") == 2 && s.uploaded("debian", "one") == 2 && s.uploaded("fedora", "fake") == 2
	})
}
