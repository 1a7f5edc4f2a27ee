//go:build gearman

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/sandbox"
	wire "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/gearman/gearmantest"
	"github.com/npctl/npctl/internal/testutil"
)

// patience is the timeout of conditions that a test waits for.
const patience = testutil.Patience

// shop is a job server, clouds that all npctl processes reach, and one directory for the main npctl and for each build
// host.
type shop struct {
	t       *testing.T
	npctl   string // path of the binary
	dir     string
	gearman *gearmantest.Process
	servers wire.Options // options with which npctl reaches the job server
	block   string       // the gearman block
}

// hostImages lists the images that each build host can build.
var hostImages = map[string][]string{"a": {"debian"}, "b": {"debian", "fedora"}, "c": {"fedora", "suse"}}

// uploadWorkers is the number of connections of a build host that accept uploads.
const uploadWorkers = 2

// imageScript creates an image of one mebibyte. It records its start and its end, and waits while the test holds the
// image.
const imageScript = `set -e
echo "$NPCTL_BUILD_ID $1" >>"$SHOP/begun"
echo "making $NPCTL_IMAGE_NAME on $1"
while [ -e "$SHOP/hold-$NPCTL_IMAGE_NAME" ]; do sleep 0.05; done
yes "$NPCTL_BUILD_ID" | head -c 1048576 >"$NPCTL_OUTPUT.raw"
echo "$NPCTL_BUILD_ID $1" >>"$SHOP/made"
`

// builtNpctl builds npctl and returns the path of the binary.
func builtNpctl(t *testing.T) string {
	t.Helper()
	npctl := filepath.Join(t.TempDir(), "npctl")
	if out, err := exec.Command("go", "build", "-o", npctl, ".").CombinedOutput(); err != nil {
		t.Fatalf("build npctl: %v\n%s", err, out)
	}
	return npctl
}

func newShop(t *testing.T, npctl string) *shop {
	t.Helper()
	s := &shop{t: t, npctl: npctl, dir: t.TempDir(), gearman: gearmantest.StartMortalGearmand(t)}
	s.servers = wire.Options{Servers: []string{s.gearman.Addr}}
	s.block = fmt.Sprintf("gearman {\n servers = [%q]\n }", s.gearman.Addr)
	s.prepare()
	return s
}

// newTLSShop returns a shop with stunnel in front of gearmand. stunnel requires client certificates.
func newTLSShop(t *testing.T, npctl string) *shop {
	t.Helper()
	s := &shop{t: t, npctl: npctl, dir: t.TempDir(), gearman: gearmantest.StartMortalGearmand(t)}
	certs := gearmantest.NewCertificates(t)
	config, err := wire.LoadTLS(certs.CA, certs.Cert, certs.Key)
	testutil.Must(t, err)
	s.servers = wire.Options{Servers: []string{gearmantest.StartStunnel(t, certs, s.gearman.Addr)}, TLS: config}
	s.block = fmt.Sprintf("gearman {\n servers = [%q]\n tls {\n ca = %q\n cert = %q\n key = %q\n }\n }",
		s.servers.Servers[0], certs.CA, certs.Cert, certs.Key)
	s.prepare()
	return s
}

// prepare writes the configurations.
func (s *shop) prepare() {
	s.t.Helper()
	s.write("image.sh", imageScript)
	for host, images := range hostImages {
		text := "npctl {\n images_dir = \"images\"\n " + s.block + "\n}\n" + s.clouds("fault_file = \""+s.path("faults.json")+"\"", "")
		for _, image := range images {
			text += fmt.Sprintf("diskimage %q {\n builder \"exec\" {\n command = [\"sh\", %q, %q]\n env = { SHOP = %q }\n }\n }\n",
				image, s.path("image.sh"), host, s.dir)
		}
		s.write(host+"/npctl.hcl", text)
	}
	s.configure("debian", "fedora")
}

// clouds returns the blocks of two providers. The format of the second requires a conversion.
func (s *shop) clouds(more, offers string) string {
	text := ""
	for name, format := range map[string]string{"one": "raw", "two": "qcow2"} {
		text += fmt.Sprintf("provider \"sandbox\" %q {\n file = %q\n image_format = %q\n %s\n pool \"main\" {\n networks = [\"private\"]\n %s\n }\n }\n",
			name, s.path(name+".json"), format, more, offers)
	}
	return text
}

// configure writes the main configuration, in which every provider uses the given images.
func (s *shop) configure(images ...string) {
	s.t.Helper()
	text := "npctl {\n leak_age = \"1ms\"\n " + s.block + "\n}\n"
	offers := ""
	for _, image := range images {
		text += fmt.Sprintf("diskimage %q {\n builder \"gearman\" {}\n keep = 1\n }\nlabel %q {}\n", image, image)
		offers += fmt.Sprintf("label %q {\n image = diskimage.%s\n flavor = \"small\"\n }\n", image, image)
	}
	s.write("main/npctl.hcl", text+s.clouds("", offers))
}

func (s *shop) path(name string) string { return filepath.Join(s.dir, name) }

func (s *shop) write(name, text string) {
	s.t.Helper()
	testutil.Must(s.t, os.MkdirAll(filepath.Dir(s.path(name)), 0o700))
	testutil.WriteFile(s.t, s.path(name), text)
}

func (s *shop) read(name string) string {
	text, err := os.ReadFile(s.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(text)
}

// hold blocks the completion of builds of the image until release is called.
func (s *shop) hold(image string) (release func()) {
	s.t.Helper()
	s.write("hold-"+image, "")
	return func() { _ = os.Remove(s.path("hold-" + image)) }
}

// slowUploads delays every upload of a build host beyond the timeout of the test, until end is called.
func (s *shop) slowUploads() (end func()) {
	s.t.Helper()
	s.write("faults.json", `[{"operation": "image.upload", "action": "slow", "delay": "1h"}]`)
	return func() { _ = os.Remove(s.path("faults.json")) }
}

// program is a running npctl process.
type program struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	out    bytes.Buffer // read it only after ended is closed
	ended  chan struct{}
	reaped error
}

func (s *shop) start(dir string, args ...string) *program {
	s.t.Helper()
	p := &program{t: s.t, name: dir + ": npctl " + strings.Join(args, " "), ended: make(chan struct{})}
	p.cmd = exec.Command(s.npctl, args...)
	p.cmd.Dir = s.path(dir)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	testutil.Must(s.t, p.cmd.Start())
	go func() { p.reaped = p.cmd.Wait(); close(p.ended) }()
	s.t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.ended
		if s.t.Failed() {
			s.t.Logf("%s\n%s%v", p.name, p.out.String(), p.reaped)
		}
	})
	return p
}

// host starts a build host.
func (s *shop) host(name string, args ...string) *program {
	s.t.Helper()
	return s.start(name, append([]string{"builder", "-host=" + name, fmt.Sprint("-upload-workers=", uploadWorkers), "-lock-timeout=20s"}, args...)...)
}

func (p *program) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// kill kills the program with SIGKILL.
func (p *program) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// wait waits for the end of the program and returns its exit code and output.
func (p *program) wait() (int, string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(testutil.Patience):
		p.kill()
		p.t.Fatalf("%s did not end", p.name)
	}
	return p.cmd.ProcessState.ExitCode(), p.out.String()
}

// succeeds waits for exit code 0 and returns the output.
func (p *program) succeeds() string {
	p.t.Helper()
	code, out := p.wait()
	if code != 0 {
		p.t.Fatalf("%s: exit code %d\n%s", p.name, code, out)
	}
	return out
}

// fails waits for exit code 1 and checks the reason in the output.
func (p *program) fails(because string) {
	p.t.Helper()
	code, out := p.wait()
	if code != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), because) {
		p.t.Fatalf("%s: exit code %d, want 1 and %q\n%s", p.name, code, because, out)
	}
}

func (s *shop) npctlMain(args ...string) *program { s.t.Helper(); return s.start("main", args...) }

func (s *shop) apply() *program {
	s.t.Helper()
	return s.npctlMain("apply", "-auto-approve", "-lock-timeout=20s")
}

// settled checks that no changes remain.
func (s *shop) settled() {
	s.t.Helper()
	if out := s.npctlMain("plan").succeeds(); !strings.Contains(out, "No changes.") {
		s.t.Fatalf("after all was done, the plan is\n%s", out)
	}
}

// until polls a condition. On timeout it prints the value of instead.
func (s *shop) until(what string, look func() (ok bool, instead any)) {
	s.t.Helper()
	var instead any
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if ok, instead = look(); ok {
			return
		}
	}
	s.t.Fatalf("timed out waiting for %s; there is %v", what, instead)
}

// jobs is the status of a function, as the administrative port reports it.
type jobs struct{ Queued, Running, Workers int }

// functions returns the functions that have workers or jobs. It returns an error if the job server does not respond.
func (s *shop) functions() (map[string]jobs, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	status, err := wire.New(s.servers).Status(ctx)
	found := map[string]jobs{}
	for name, f := range status {
		if j := jobs(f); j != (jobs{}) {
			found[name] = j
		}
	}
	return found, err
}

// offered waits until the job server has exactly these functions.
func (s *shop) offered(want map[string]jobs) {
	s.t.Helper()
	var got map[string]jobs
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error
		if got, err = s.functions(); err == nil && maps.Equal(got, want) {
			return
		}
	}
	s.t.Fatalf("functions (-want +got):\n%s", cmp.Diff(want, got))
}

// offers returns the functions of idle hosts and of the builds that they keep.
func offers(hosts string, kept ...string) map[string]jobs {
	want := map[string]jobs{}
	for _, host := range strings.Fields(hosts) {
		for _, image := range hostImages[host] {
			want["image-build:"+image] = jobs{Workers: want["image-build:"+image].Workers + 1}
		}
	}
	for _, id := range kept {
		want["image-upload:"+id] = jobs{Workers: uploadWorkers}
		want["image-delete:"+id] = jobs{Workers: uploadWorkers}
	}
	return want
}

// lines returns the lines of a file to which scripts append, such as the started builds with their hosts.
func (s *shop) lines(name string) []string {
	s.t.Helper()
	return strings.Split(strings.TrimSuffix(s.read(name), "\n"), "\n")
}

// begun waits for the start of the nth build. It returns the ID and the host of that build.
func (s *shop) begun(n int) (id, host string) {
	s.t.Helper()
	s.until(fmt.Sprint(n, " builds to begin"), func() (bool, any) {
		lines := s.lines("begun")
		id, host, _ = strings.Cut(lines[len(lines)-1], " ")
		return len(lines) == n && id != "", lines
	})
	return id, host
}

// onDisk lists the image files of a host, without the hidden files of npctl.
func (s *shop) onDisk(host string) []string {
	s.t.Helper()
	entries, err := os.ReadDir(s.path(host + "/images"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	files := []string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			files = append(files, e.Name())
		}
	}
	return files
}

// cloud lists the images of a provider, as "<build id> <status>".
func (s *shop) cloud(name string) []string {
	s.t.Helper()
	driver := sandbox.New()
	values := driver.Schema().Provider.Null().AsValueMap()
	values["file"] = cty.StringVal(s.path(name + ".json"))
	cloud, err := driver.Open(s.t.Context(), drivers.Env{Provider: name}, cty.ObjectVal(values))
	testutil.Must(s.t, err)
	store, _ := drivers.ImagesOf(cloud)
	list, err := store.ListImages(s.t.Context())
	testutil.Must(s.t, err)
	images := []string{}
	for _, i := range list {
		images = append(images, i.Marks.Build+" "+string(i.Status))
	}
	slices.Sort(images)
	return images
}

func (s *shop) equal(what string, got, want any) {
	s.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// everywhere checks that each of the builds is on one host in both formats and in both clouds, and that there are no
// other files and images.
func (s *shop) everywhere(builds map[string]build) { s.t.Helper(); s.everywhereWith(builds, nil) }

// everywhereWith is everywhere for builds that further hosts have, too.
func (s *shop) everywhereWith(builds map[string]build, copies []copyOf) {
	s.t.Helper()
	files, images := map[string][]string{"a": {}, "b": {}, "c": {}}, []string{}
	for id, b := range builds {
		files[b.host] = append(files[b.host], b.files(id)...)
		images = append(images, id+" ready")
	}
	for _, c := range copies {
		files[c.host] = append(files[c.host], builds[c.id].files(c.id)...)
	}
	slices.Sort(images)
	for host := range files {
		slices.Sort(files[host])
		s.equal("files of host "+host, s.onDisk(host), files[host])
	}
	for _, cloud := range []string{"one", "two"} {
		s.equal("images in cloud "+cloud, s.cloud(cloud), images)
	}
}

// copyOf is a build on a host that is not the host of its record.
type copyOf struct{ id, host string }

// withCopies adds the functions of the further hosts of builds.
func withCopies(want map[string]jobs, copies []copyOf) map[string]jobs {
	for _, c := range copies {
		for _, function := range []string{"image-upload:" + c.id, "image-delete:" + c.id} {
			want[function] = jobs{Workers: want[function].Workers + uploadWorkers}
		}
	}
	return want
}

// build is a ready build.
type build struct{ image, host string }

func (b build) files(id string) []string {
	return []string{b.image + "-" + id + ".qcow2", b.image + "-" + id + ".raw"}
}
