package zuul_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/testutil"
)

// rawImage and qcow2Image have valid headers of these formats, but no valid content after that.
var (
	rawImage   = image("\x00\x00\x00\x00")
	qcow2Image = image("QFI\xfb\x00\x00\x00\x02" + strings.Repeat("\x00", 64))
)

func image(head string) []byte {
	content := make([]byte, 200_000)
	_, _ = rand.NewChaCha8([32]byte{byte(len(head))}).Read(content)
	copy(content, head)
	return content
}

func zstded(t *testing.T, file []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	testutil.Must(t, err)
	return w.EncodeAll(file, nil)
}

func sha(file []byte) string { s := sha256.Sum256(file); return hex.EncodeToString(s[:]) }
func md(file []byte) string  { s := md5.Sum(file); return hex.EncodeToString(s[:]) }

// site is a Zuul with one build that has artifacts on a file server.
type site struct {
	*double
	files *files
}

// newSite offers a compressed raw image and a qcow2 image, with their checksums.
func newSite(t *testing.T) site {
	t.Helper()
	f := newFiles(t, map[string][]byte{"/5f3/debian.raw.zst": zstded(t, rawImage), "/5f3/debian.qcow2": qcow2Image})
	d := newDouble(t, periodic(7, 31,
		artifact(f.URL+"/5f3/debian.raw.zst?sig=hunter2", "format", "raw", "sha256", sha(rawImage), "md5sum", md(rawImage)),
		artifact("debian.qcow2", "format", "qcow2", "sha256", strings.ToUpper(sha(qcow2Image))),
		row{"name": "manifest", "url": f.URL + "/manifest.json", "metadata": row{"type": "zuul_manifest"}},
	).with("log_url", f.URL+"/5f3", "newrev", "abc"))
	return site{d, f}
}

func TestBuildIsFetchedAndRecorded(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("old %t", old), func(t *testing.T) {
			s := newSite(t)
			s.old = old
			j := job(t, s.block(), "qcow2", "raw")
			j.Version = number(7)
			phases := map[string]bool{}
			j.Progress = func(phase string, done, total int64) {
				phases[phase] = true
				if done < 0 || done > total {
					t.Errorf("progress %q is %d of %d", phase, done, total)
				}
			}
			var log bytes.Buffer
			made, err := quick().Build(t.Context(), j, &log)
			testutil.Must(t, err)
			base := filepath.Join(j.Dir, "debian-b1")
			want := builders.Artifact{
				Files: []builders.File{{Format: "raw", Path: base + ".raw"}, {Format: "qcow2", Path: base + ".qcow2"}},
				Extra: map[string]string{
					"zuul_build": number(7), "zuul_job": "build-image", "zuul_project": "org/images", "zuul_branch": "main",
					"zuul_pipeline": "periodic", "zuul_commit": "abc", "zuul_end_time": "2025-03-11T02:31:07Z", "zuul_log_url": s.files.URL + "/5f3",
					"url_raw": s.files.URL + "/5f3/debian.raw.zst?…", "sha256_raw": sha(rawImage), "md5_raw": md(rawImage),
					"url_qcow2": s.files.URL + "/5f3/debian.qcow2", "sha256_qcow2": sha(qcow2Image), "md5_qcow2": md(qcow2Image),
				},
			}
			if diff := cmp.Diff(want, made); diff != "" {
				t.Errorf("artifact (-want +got):\n%s", diff)
			}
			checkContent(t, j, map[string][]byte{"debian-b1.raw": rawImage, "debian-b1.qcow2": qcow2Image})
			if !phases["querying Zuul"] || len(phases) < 2 {
				t.Errorf("progress told %v", phases)
			}
			for _, part := range []string{"npctl: using build " + number(7), "fetching raw from " + s.files.URL + "/5f3/debian.raw.zst?…\n", "sha256 " + sha(rawImage) + ", equal to its metadata"} {
				if !strings.Contains(log.String(), part) {
					t.Errorf("log lacks %q:\n%s", part, &log)
				}
			}
			if strings.Contains(log.String(), "hunter2") {
				t.Errorf("log shows a signature:\n%s", &log)
			}
		})
	}
}

// checkContent checks that the build's directory has these files and no others.
func checkContent(t *testing.T, j builders.Job, want map[string][]byte) {
	t.Helper()
	entries, err := os.ReadDir(j.Dir)
	testutil.Must(t, err)
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(j.Dir, entry.Name()))
		if file, ok := want[entry.Name()]; err != nil || !ok || !bytes.Equal(file, content) {
			t.Errorf("%s has %d bytes (%v), want it to be one of %d files with its content", entry.Name(), len(content), err, len(want))
		}
	}
	if len(entries) != len(want) {
		t.Errorf("there are %d files, want %d", len(entries), len(want))
	}
}

func TestOnlyNeededFormatsAreFetched(t *testing.T) {
	for _, test := range []struct {
		wanted, configured, files []string
	}{
		{[]string{"qcow2"}, []string{"raw", "qcow2"}, []string{"qcow2"}},
		{[]string{"raw"}, []string{"raw", "qcow2"}, []string{"raw"}},
		{[]string{"qcow2", "raw", "qcow2"}, []string{"raw", "qcow2"}, []string{"raw", "qcow2"}},
		{[]string{"vhd"}, []string{"raw", "qcow2"}, []string{"raw"}},
		{[]string{"vhd"}, []string{"qcow2"}, []string{"qcow2"}},
		{[]string{"vhd", "qcow2"}, []string{"raw", "qcow2"}, []string{"qcow2"}},
		{[]string{"raw"}, []string{"qcow2"}, []string{"qcow2"}},
		{nil, []string{"raw", "qcow2"}, []string{"raw"}},
		{[]string{"tar", "vhd"}, []string{"qcow2", "tar"}, []string{"qcow2", "tar"}},
		{[]string{"tar"}, []string{"qcow2", "tar"}, []string{"tar"}},
		{[]string{"vhd"}, []string{"tar"}, []string{"tar"}},
	} {
		s := newSite(t)
		s.files.content["/5f3/debian.tar"] = rawImage
		s.rows[0]["artifacts"] = append(s.rows[0]["artifacts"].([]row), artifact("debian.tar"))
		j := job(t, s.block("artifact", wants(test.configured...)), test.wanted...)
		made, err := quick().Build(t.Context(), j, &bytes.Buffer{})
		testutil.Must(t, err)
		var got []string
		for _, file := range made.Files {
			got = append(got, file.Format)
		}
		if !slices.Equal(got, test.files) || len(s.files.requests()) != len(test.files) {
			t.Errorf("of %v, for %v: fetched %v with %q, want %v", test.configured, test.wanted, got, s.files.requests(), test.files)
		}
	}
}

func TestNewestBuildIsTheDefault(t *testing.T) {
	s := newSite(t)
	s.rows = append(s.rows, periodic(9, 10, artifact("https://images.example.org/older.qcow2")))
	made, err := quick().Build(t.Context(), job(t, s.block(), "qcow2"), &bytes.Buffer{})
	if err != nil || made.Extra["zuul_build"] != number(7) {
		t.Errorf("fetched %v, %v", made.Extra, err)
	}
	s.rows = []row{periodic(1, 1), periodic(2, 2), periodic(3, 3, raw).with("change", 1)}
	_, err = quick().Build(t.Context(), job(t, s.block(), "qcow2"), &bytes.Buffer{})
	want := `there is no usable build of job "build-image" of project "org/images" in periodic; ` +
		"1× it built a change that is not merged, and its pipeline is not in trusted_pipelines; 2× it has no artifact that matches an artifact block"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestInterruptedDownloadIsResumed(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/5f3/debian.raw.zst", "/5f3/debian.qcow2"} {
		s.files.half(path)
	}
	j := job(t, s.block(), "qcow2", "raw")
	var log bytes.Buffer
	if _, err := quick().Build(t.Context(), j, &log); err != nil {
		t.Fatal(err)
	}
	checkContent(t, j, map[string][]byte{"debian-b1.raw": rawImage, "debian-b1.qcow2": qcow2Image})
	if got := strings.Join(s.files.requests(), "\n"); strings.Count(got, "bytes=") != 2 || len(s.files.requests()) != 4 {
		t.Errorf("requests were:\n%s", got)
	}
	if !strings.Contains(log.String(), "npctl: qcow2: interrupted at 97.7 KiB of 195.3 KiB: unexpected EOF; next try in") {
		t.Errorf("log is\n%s", &log)
	}
}

func TestWrongChecksumIsRefusedAndNamed(t *testing.T) {
	s := newSite(t)
	s.files.content["/5f3/debian.qcow2"] = image("QFI\xfb\x00\x00\x00\x02other")
	got := sha(s.files.content["/5f3/debian.qcow2"])
	j := job(t, s.block(), "qcow2")
	_, err := quick().Build(t.Context(), j, &bytes.Buffer{})
	want := fmt.Sprintf(`build %s: artifact "image of the night" (qcow2): fetch %s/5f3/debian.qcow2: wrong checksum: the file has sha256 %s, expected %s`,
		number(7), s.files.URL, got, sha(qcow2Image))
	if err == nil || err.Error() != want {
		t.Errorf("got error:  %v\nwant error: %s", err, want)
	}
	checkContent(t, j, nil)
}

func TestVanishedBuildIsGone(t *testing.T) {
	for name, vanish := range map[string]func(site){
		"artifact": func(s site) { delete(s.files.content, "/5f3/debian.qcow2") },
		"artifact for good": func(s site) {
			s.files.faults["/5f3/debian.qcow2"] = append(s.files.faults["/5f3/debian.qcow2"],
				func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusGone); return true })
		},
		"build": func(s site) { s.rows[0]["uuid"] = number(8) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			vanish(s)
			j := job(t, s.block(), "qcow2")
			j.Version = number(7)
			_, err := quick().Build(t.Context(), j, &bytes.Buffer{})
			if !errors.Is(err, builders.ErrVersionGone) || !strings.Contains(err.Error(), number(7)) {
				t.Errorf("error is %v, want %v", err, builders.ErrVersionGone)
			}
			checkContent(t, j, nil)
		})
	}
	s := newSite(t)
	s.token = "x"
	j := job(t, s.block(), "qcow2")
	j.Version = number(7)
	if _, err := quick().Build(t.Context(), j, &bytes.Buffer{}); err == nil || errors.Is(err, builders.ErrVersionGone) {
		t.Errorf("error is %v, which says the build is gone when nobody could look", err)
	}
}

func TestBadInputIsRejected(t *testing.T) {
	declare := func(length string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", length)
			return true
		}
	}
	for _, test := range []struct {
		name    string
		spoil   func(site)
		version string
		want    string
	}{
		{"file in place of an address", address("file:///etc/passwd"), "", `artifact "image of the night" has the address "file:///etc/passwd", which is not a URL`},
		{"container image", address("docker://registry.example.org/x"), "", "which is not a URL"},
		{"no address", address(""), "", "is not of"}, // the log's own index, which is no image
		{"address that cannot be read", address("http://[::1:secret"), "", "has an address that cannot be parsed"},
		{"checksum that is none", func(s site) { s.artifact()["metadata"].(row)["sha256"] = "sha256:x" }, "", `has the sha256 "sha256:x", which are not 64 hex digits`},
		{"another format", func(s site) { s.files.content["/5f3/debian.qcow2"] = rawImage; s.unsummed() }, "", "does not have the header of a qcow2 image"},
		{"backing file", func(s site) {
			s.files.content["/5f3/debian.qcow2"] = image("QFI\xfb\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x01\x00" + strings.Repeat("\x00", 64))
			s.unsummed()
		}, "", "image refers to other files: it has a backing file"},
		{"web page", func(s site) { s.files.content["/5f3/debian.qcow2"] = []byte("<!DOCTYPE html>\n<p>Please log in") }, "", "web page instead of the file"},
		{"too large", func(s site) {
			s.files.faults["/5f3/debian.qcow2"] = append(s.files.faults["/5f3/debian.qcow2"], declare("2000000000000"))
		}, "", "the limit is 1.0 GiB; max_size_gb sets it"},
		{"two that fit", func(s site) {
			s.rows[0]["artifacts"] = append(s.rows[0]["artifacts"].([]row), artifact("https://x/i.qcow2", "image_name", "ubuntu"))
		}, "", `2 artifacts that match artifact "qcow2": "image of the night", "image of the night" (image_name "ubuntu"); distinguish them with image_name`},
		{"build of a change", func(s site) { s.rows[0] = s.rows[0].with("change", 1) }, number(7), "is not used: it built a change that is not merged"},
		{"build with a change beside it", func(s site) { s.rows[0]["refs"] = []row{{"change": nil}, {"change": 4}} }, number(7), "is not used: it built a change that is not merged"},
		{"id that is a path", nil, "../../../info", `"../../../info" is not the ID of a Zuul build`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t)
			if test.spoil != nil {
				test.spoil(s)
			}
			if test.name == "no address" {
				s.files.content["/5f3/"] = rawImage
				test.want = "does not have the header of a qcow2 image"
				s.unsummed()
			}
			j := job(t, s.block("max_size_gb", 1), "qcow2")
			j.Version = test.version
			var log bytes.Buffer
			_, err := quick().Build(t.Context(), j, &log)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
			if shown := fmt.Sprint(err, log.String()); strings.Contains(shown, "secret") {
				t.Errorf("an address is shown whole: %s", shown)
			}
		})
	}
}

// artifact returns the site's qcow2 artifact.
func (s site) artifact() row { return s.rows[0]["artifacts"].([]row)[1] }

func (s site) unsummed() { delete(s.artifact()["metadata"].(row), "sha256") }

func address(url string) func(site) {
	return func(s site) { s.artifact()["url"] = url }
}

// A job chooses the names: they must not appear in any path.
func TestNamesOfArtifactsAreNoPaths(t *testing.T) {
	s := newSite(t)
	s.files.content["/../../../../tmp/evil.qcow2"] = qcow2Image
	s.artifact()["name"] = "../../../../tmp/evil\n\x1b[31m"
	s.artifact()["url"] = s.files.URL + "/%2e%2e/../..%2f../../tmp/evil.qcow2"
	s.artifact()["metadata"].(row)["image_name"] = "/etc/passwd"
	j := job(t, s.block("image_name", "/etc/passwd"), "qcow2")
	var log bytes.Buffer
	_, err := quick().Build(t.Context(), j, &log)
	if err == nil {
		checkContent(t, j, map[string][]byte{"debian-b1.qcow2": qcow2Image})
	} else if !errors.Is(err, builders.ErrVersionGone) {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(j.Dir)); len(entries) > 2 {
		t.Errorf("beside the build there is %v", entries)
	}
	if shown := fmt.Sprint(err, log.String()); strings.Contains(shown, "\x1b") {
		t.Errorf("control characters are shown: %q", shown)
	}
}

func TestEndedContextStopsTheBuild(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	why := errors.New("the operator pressed ^C")
	for _, test := range []struct {
		name    string
		timeout time.Duration
		is      error
		want    string
	}{
		{"cancelled", 0, why, "^C"},
		{"time is up", 50 * time.Millisecond, context.DeadlineExceeded, "timeout after 50ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t)
			s.files.faults["/5f3/debian.qcow2"] = []func(http.ResponseWriter, *http.Request) bool{hang}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			j := job(t, s.block(), "qcow2")
			if j.Timeout = test.timeout; j.Timeout == 0 {
				time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
			}
			_, err := quick().Build(ctx, j, &bytes.Buffer{})
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
			checkContent(t, j, nil)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newSite(t)
	if _, err := quick().Build(ctx, job(t, s.block(), "qcow2"), &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if asked, _ := s.calls(); len(asked) > 0 {
		t.Errorf("after the end Zuul was asked for %q", asked)
	}
}

// An error of one of several downloads also stops the others.
func TestOneFailureEndsTheOthers(t *testing.T) {
	s := newSite(t)
	s.files.faults["/5f3/debian.raw.zst"] = []func(http.ResponseWriter, *http.Request) bool{
		func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
	}
	delete(s.files.content, "/5f3/debian.qcow2")
	j := job(t, s.block(), "qcow2", "raw")
	b := quick()
	b.Fetch.Stall = time.Hour // the other download does not end on its own
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.Build(ctx, j, &bytes.Buffer{}); !errors.Is(err, builders.ErrVersionGone) || ctx.Err() != nil {
		t.Errorf("error is %v, %v", err, ctx.Err())
	}
	checkContent(t, j, nil)
}

func TestArtifactsDoNotLeadToThisHost(t *testing.T) {
	s := newSite(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, s.files.URL+"/5f3/debian.qcow2", http.StatusFound)
		case "/here":
			_, _ = w.Write(qcow2Image)
		default:
			s.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	s.artifact()["metadata"] = row{"type": "zuul_image", "format": "qcow2"}
	for _, test := range []struct {
		name, address string
		allowed       cty.Value
		want          string
	}{
		{"an address of this host", s.files.URL + "/5f3/debian.qcow2", cty.False, "127.0.0.1 is an address of this host; npctl fetches nothing from there unless the image has local_artifacts = true"},
		{"a redirect to this host", front.URL + "/away", cty.False, "127.0.0.1 is an address of this host"},
		{"the host of Zuul", front.URL + "/here", cty.False, ""},
		{"a redirect that is allowed", front.URL + "/away", cty.True, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.artifact()["url"] = test.address
			_, err := quick().Build(t.Context(), job(t, s.block("api_url", front.URL, "local_artifacts", test.allowed), "qcow2"), &bytes.Buffer{})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
	if got := s.files.requests(); len(got) != 1 {
		t.Errorf("the server of files was asked %q, want one request, the one that is allowed", got)
	}
}

func TestFormatsHaveTheNamesOfZuul(t *testing.T) {
	s := newSite(t)
	made, err := quick().Build(t.Context(), job(t, s.block("artifact", wants("qcow")), "qcow2"), &bytes.Buffer{})
	if err != nil || len(made.Files) != 1 || made.Files[0].Format != "qcow2" {
		t.Errorf("files are %+v, %v; want one of qcow2", made.Files, err)
	}
}
