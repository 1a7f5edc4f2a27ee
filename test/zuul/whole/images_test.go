//go:build integration

package whole

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestJobBuildsPublishesAndCleansUpImages runs a job with the roles of packaging/ansible twice. npctl fetches each build, and
// the second job deletes the files of the first one.
func TestJobBuildsPublishesAndCleansUpImages(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	text := fmt.Sprintf(`
npctl {
  images_dir = "images"
  state "bolt" { path = "npctl.db" }
}
zuul_image "tiny" {
  api_url         = %q
  tenant          = "site"
  project         = "app"
  pipelines       = ["images"]
  job             = "build-image-tiny"
  image_name      = "tiny"
  local_artifacts = true
  keep            = 1
  artifact "raw" {}
}
label "tiny" {}
provider "sandbox" "cloud" {
  image_format = "raw"
  pool "main" {
    max_servers = 1
    networks    = ["public"]
    label "tiny" {
      image  = zuul_image.tiny
      flavor = "small"
    }
  }
}
`, s.URL+"/")
	s.must(os.WriteFile(filepath.Join(dir, "npctl.hcl"), []byte(text), 0o600), "npctl.hcl")
	published := map[string]bool{}
	for range 2 {
		before := s.Builds("build-image-tiny")
		s.Enqueue("images")
		s.Ended("build-image-tiny", before, "SUCCESS")
		files, err := filepath.Glob(filepath.Join(s.Dir, "images", "tiny-*.raw.zst"))
		if err != nil || len(files) != 1 || published[files[0]] {
			t.Fatalf("published files are %v, %v; of earlier jobs %v", files, err, published)
		}
		published[files[0]] = true
		npctl(t, dir, "apply", "-auto-approve")
		want := decompressed(t, files[0])
		local, err := filepath.Glob(filepath.Join(dir, "images", "tiny-*.raw"))
		if err != nil || len(local) != 1 {
			t.Fatalf("npctl has %v, %v; it keeps one build", local, err)
		}
		got, err := os.ReadFile(local[0])
		s.must(err, "image")
		if sum(got) != sum(want) {
			t.Errorf("npctl has another image than the job published")
		}
		var shown struct {
			Images []struct {
				Uploads []struct{ State string } `json:"uploads"`
			} `json:"images"`
		}
		s.must(json.Unmarshal(npctl(t, dir, "image", "show", "tiny", "-json"), &shown), "image show")
		if len(shown.Images) != 1 || len(shown.Images[0].Uploads) != 1 || shown.Images[0].Uploads[0].State != "ready" {
			t.Errorf("images are %+v", shown.Images)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, "building", "*")); len(left) > 0 {
		t.Errorf("the job left %v on its machine", left)
	}
	s.awaitAllFree()
}

func npctl(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("npctl %v: %v\n%s%s", args, err, out.Bytes(), errs.Bytes())
	}
	return out.Bytes()
}

func decompressed(t *testing.T, file string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "zstd", "-dcq", file).Output()
	if err != nil {
		t.Fatalf("zstd: %v", err)
	}
	return out
}

func sum(data []byte) string { s := sha256.Sum256(data); return hex.EncodeToString(s[:]) }
