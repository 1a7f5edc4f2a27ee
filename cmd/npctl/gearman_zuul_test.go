//go:build gearman

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// zuulAPI serves the builds of an image job, and their artifacts, as zuul-web does.
type zuulAPI struct {
	*httptest.Server
	mu    sync.Mutex
	ended []time.Time // guarded by mu: end of each build, the oldest first
}

func newZuulAPI(t *testing.T) *zuulAPI {
	z := &zuulAPI{}
	z.Server = httptest.NewServer(z)
	t.Cleanup(z.Close)
	return z
}

// finish adds a build.
func (z *zuulAPI) finish() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ended = append(z.ended, time.Now().UTC())
}

func (z *zuulAPI) id(number int) string { return fmt.Sprintf("%032x", number+1) }

func (z *zuulAPI) build(number int) map[string]any {
	return map[string]any{"uuid": z.id(number), "job_name": "image", "result": "SUCCESS", "final": true, "pipeline": "post",
		"end_time": z.ended[number].Format("2006-01-02T15:04:05"), "log_url": z.URL + "/logs/",
		"ref": map[string]any{"project": "org/images", "branch": "main", "ref": "refs/heads/main"},
		"artifacts": []any{map[string]any{"name": "raw", "url": fmt.Sprintf("%s/files/%d.raw", z.URL, number),
			"metadata": map[string]any{"type": "zuul_image"}}}}
}

func (z *zuulAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/files/") {
		_, _ = w.Write([]byte(strings.Repeat(r.URL.Path, 1000)))
		return
	}
	var answer any
	switch path := strings.TrimPrefix(r.URL.Path, "/api/"); path {
	case "info", "tenant/T/info":
		answer = map[string]any{"info": map[string]any{"capabilities": map[string]any{}}}
	case "tenant/T/builds":
		list := []any{}
		for number := len(z.ended) - 1; number >= 0; number-- {
			list = append(list, z.build(number))
		}
		answer = list
	default:
		for number := range z.ended {
			if path == "tenant/T/build/"+z.id(number) {
				answer = z.build(number)
			}
		}
	}
	if answer == nil {
		w.WriteHeader(http.StatusNotFound)
		answer = map[string]any{"description": "not found"}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// newZuulBuild lets a build host with a zuul_image report a new build of Zuul: the next plan fetches it there. While
// the build host is down, and with a build host of an older npctl, nothing is fetched.
func newZuulBuild(s *shop) {
	z := newZuulAPI(s.t)
	z.finish()
	s.write("a/npctl.hcl", "npctl {\n images_dir = \"images\"\n "+s.block+"\n}\n"+s.clouds("", "")+fmt.Sprintf(`zuul_image "debian" {
  api_url         = %q
  tenant          = "T"
  project         = "org/images"
  pipelines       = ["post"]
  job             = "image"
  local_artifacts = true
  artifact "raw" {}
}
`, z.URL))
	s.configure("debian")
	host := s.host("a")
	idle := func(builds ...string) map[string]jobs {
		want := offers("a", builds...)
		want["image-versions:debian"] = jobs{Workers: 2}
		return want
	}
	s.offered(idle())
	s.apply().succeeds()
	first := s.kept("debian")
	s.settled()

	time.Sleep(time.Until(z.ended[0].Truncate(time.Second).Add(1100 * time.Millisecond))) // times of Zuul are in seconds
	z.finish()
	if out := s.npctlMain("plan").succeeds(); !strings.Contains(out, z.id(1)) {
		s.t.Errorf("the plan does not fetch the new build %s:\n%s", z.id(1), out)
	}
	host.kill()
	s.offered(map[string]jobs{})
	if out := s.npctlMain("plan").succeeds(); !strings.Contains(out, "No changes.") {
		s.t.Errorf("without the build host the plan is\n%s", out)
	}
	s.host("a")
	s.offered(idle(idsOf(first)...))
	s.apply().succeeds()
	second := s.kept("debian")
	if idsOf(second)[0] == idsOf(first)[0] {
		s.t.Error("the new build was not fetched")
	}
	if out := s.npctlMain("image", "show", "debian").succeeds(); !strings.Contains(out, z.id(1)) {
		s.t.Errorf("the build has not version %s:\n%s", z.id(1), out)
	}
	s.everywhere(second)
	s.settled()
}
