package planfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
	"github.com/npctl/npctl/resources"
)

func sampleFile() File {
	return File{Meta: plantest.Meta(), Plan: plantest.Plan(), Sensitive: []string{"password"},
		Variables: map[string]json.RawMessage{"region": json.RawMessage(`"ca-ymq-1"`), "sizes": json.RawMessage(`[1,2]`)}}
}

func saved(t *testing.T, f File) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.plan")
	testutil.Must(t, f.Write(path))
	return path
}

func TestPlanFileContainsWholePlan(t *testing.T) {
	f := sampleFile()
	f.Plan = plantest.EveryField(t)
	got, err := Read(saved(t, f))
	testutil.Must(t, err)
	if diff := cmp.Diff(f, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(plan.Kind{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if stale := got.Stale(f.Plan, &plan.Records{}); len(stale) > 0 {
		t.Errorf("stale against the plan it was made from: %v", stale)
	}
}

func TestPlanFilesRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := File{Meta: plantest.Meta(), Plan: plantest.DrawPlan(r)}
		content, err := f.encode()
		testutil.Must(r, err)
		got, err := decode(content)
		testutil.Must(r, err)
		if diff := cmp.Diff(f, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(plan.Kind{})); diff != "" {
			r.Fatalf("-want +got:\n%s", diff)
		}
	})
}

func TestPlanFileIsReadableByOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.plan")
	testutil.Must(t, os.WriteFile(path, []byte("what was there before"), 0o666))
	testutil.Must(t, sampleFile().Write(path))
	info, err := os.Stat(path)
	testutil.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, want 0600", info.Mode().Perm())
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPlanFileWriteErrorNamesPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "a.plan")
	if err := sampleFile().Write(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v", err)
	}
}

func TestInvalidPlanFileIsRejected(t *testing.T) {
	content, err := sampleFile().encode()
	testutil.Must(t, err)
	change := func(old, new string) []byte {
		if !bytes.Contains(content, []byte(old)) {
			t.Fatalf("no %s in the file", old)
		}
		return bytes.Replace(content, []byte(old), []byte(new), 1)
	}
	twice := sampleFile()
	twice.Plan.Steps = append(twice.Plan.Steps, twice.Plan.Steps[0])
	unknown := sampleFile()
	unknown.Plan.Steps[0].Action = "explode"
	for _, c := range []struct {
		name    string
		content []byte
		want    error
		says    string
	}{
		{"empty", nil, ErrNotPlanFile, "it is empty; write one with npctl plan -out=FILE"},
		{"configuration", []byte("provider \"openstack\" \"x\" {}\n"), ErrNotPlanFile, "it has no plan file header"},
		{"binary", bytes.Repeat([]byte{0, 0xff}, 1<<20), ErrNotPlanFile, "it has no plan file header"},
		{"report", []byte(`{"format_version":"1.0","steps":[]}`), ErrNotPlanFile, "it is the output of -json"},
		{"newer format", change(`"format":5`, `"format":6`), ErrFormat, "npctl 0.1.0 wrote it in format 6, and this npctl reads format 5"},
		{"cut short", content[:len(content)/2], ErrDamaged, "bytes are missing"},
		{"only the header", content[:bytes.IndexByte(content, '\n')+1], ErrDamaged, "bytes are missing"},
		{"edited", change("debian-small", "debian-large"), ErrDamaged, "does not match its checksum"},
		{"something added", append(bytes.Clone(content), "x\n"...), ErrDamaged, "does not match its checksum"},
		{"step twice", encoded(t, twice), ErrDamaged, "occurs twice"},
		{"unknown action", encoded(t, unknown), ErrFormat, `the action "explode"`},
		{"unknown field", withBody(t, `{"meta":{"created":"2026-03-02T13:30:00Z","options":{}},"plan":{"steps":[],"invented_later":1}}`), ErrFormat, "written by npctl 0.9.0"},
	} {
		path := filepath.Join(t.TempDir(), "a.plan")
		testutil.Must(t, os.WriteFile(path, c.content, 0o600))
		_, err := Read(path)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %v with %q and the path", c.name, err, c.want, c.says)
		}
	}
}

func encoded(t *testing.T, f File) []byte {
	t.Helper()
	content, err := f.encode()
	testutil.Must(t, err)
	return content
}

// withBody returns a plan file with the body and a matching header.
func withBody(t *testing.T, body string) []byte {
	t.Helper()
	header, err := json.Marshal(headerFor([]byte(body), "0.9.0"))
	testutil.Must(t, err)
	return append(append(header, '\n'), body...)
}

func TestPlanFileSizeIsLimited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.plan")
	testutil.Must(t, os.WriteFile(path, nil, 0o600))
	if err := os.Truncate(path, sizeLimit+1); err != nil { // sparse
		t.Fatal(err)
	}
	if _, err := Read(path); !errors.Is(err, ErrNotPlanFile) || !strings.Contains(err.Error(), "has more than 256") {
		t.Errorf("got %v", err)
	}
}

func TestNonRegularPlanFileIsNotOpened(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	testutil.Must(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, t.TempDir()} { // opening a pipe would wait for a writer
		if _, err := Read(path); !errors.Is(err, ErrNotPlanFile) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
}

func TestPlanIsBoundToItsInstallationAndConfiguration(t *testing.T) {
	f := sampleFile()
	block := func(address, digest string, line int) resources.Block {
		return resources.Block{Address: address, Digest: digest, Source: resources.Source{File: "npctl.hcl", Line: line}}
	}
	f.Blocks = []resources.Block{block("diskimage.a", "1", 3), block("label.b", "2", 9), block("label.c", "3", 12)}
	if err := f.CheckInstallation(f.Meta.Lineage); err != nil {
		t.Error(err)
	}
	if err := f.CheckInstallation("another"); err == nil || !strings.Contains(err.Error(), `this state belongs to "another"`) {
		t.Errorf("got %v", err)
	}
	if change := f.CheckConfiguration(resources.Desired{Digests: resources.Hashes{resources.Hash(f.Meta.Digest)}}); change != nil {
		t.Errorf("got %v", change)
	}
	now := resources.Desired{Digests: resources.Hashes{"sha256:11"}, Blocks: []resources.Block{block("diskimage.a", "9", 4), block("label.b", "2", 90), block("label.d", "4", 13)}}
	want := []string{"diskimage.a (npctl.hcl:4) has changed", "label.d (npctl.hcl:13) is new", "label.c (npctl.hcl:12) was removed"}
	if diff := cmp.Diff(&ConfigurationChange{Blocks: want}, f.CheckConfiguration(now)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	now.Blocks = f.Blocks
	if change := f.CheckConfiguration(now); change == nil || len(change.Blocks) > 0 {
		t.Errorf("a sensitive value alone: got %v", change)
	}
}

func FuzzReadFile(f *testing.F) {
	content, err := sampleFile().encode()
	testutil.Must(f, err)
	f.Add(content)
	f.Add([]byte(`{"kind":"npctl plan","format":1,"size":2,"sha256":""}` + "\n{}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if _, err := decode(content); err != nil &&
			!errors.Is(err, ErrNotPlanFile) && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrDamaged) {
			t.Errorf("an error of no kind: %v", err)
		}
	})
}

func BenchmarkPlanFile(b *testing.B) {
	f := File{Meta: plantest.Meta(), Plan: plantest.BigPlan(10_000)}
	for b.Loop() {
		content, err := f.encode()
		testutil.Must(b, err)
		if _, err := decode(content); err != nil {
			b.Fatal(err)
		}
	}
}
