// Package packaging tests the files that are shipped with npctl: systemd accepts the units, which run existing
// commands, and the dashboard and alerts use existing metrics.
package packaging_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	ctyyaml "github.com/zclconf/go-cty-yaml"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/watch/metrics"
)

// foreign lists the metrics of the client library that are used.
var foreign = map[string][]string{"process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil}

// added lists the labels that Prometheus adds to every series, and le of histogram buckets.
var added = []string{"instance", "job", "le"}

// known returns the labels of every metric.
func known() map[string][]string {
	all := map[string][]string{}
	for name, labels := range foreign {
		all[name] = append(labels, added...)
	}
	for _, f := range metrics.Families() {
		names := []string{f.Name}
		if f.Kind == metrics.Histogram {
			names = []string{f.Name + "_bucket", f.Name + "_sum", f.Name + "_count"}
		}
		for _, name := range names {
			all[name] = append(slices.Clone(f.Labels), added...)
		}
	}
	return all
}

var (
	series   = regexp.MustCompile(`\b((?:npctl|process)_[a-z0-9_]+)(\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`)
)

// check reports names in an expression that do not exist. It returns the metrics that the expression uses.
func check(t *testing.T, where, expr string) (used []string) {
	t.Helper()
	all := known()
	var labels []string
	for _, found := range series.FindAllStringSubmatch(expr, -1) {
		has, ok := all[found[1]]
		if !ok {
			t.Errorf("%s: there is no %s in %s", where, found[1], expr)
			continue
		}
		used, labels = append(used, found[1]), append(labels, has...)
		for _, m := range matcher.FindAllStringSubmatch(found[2], -1) {
			if !slices.Contains(has, m[1]) {
				t.Errorf("%s: %s has no label %s in %s", where, found[1], m[1], expr)
			}
		}
	}
	if len(used) == 0 {
		t.Errorf("%s: no metric in %q", where, expr)
	}
	for _, group := range grouping.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(group[1], ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(labels, name) {
				t.Errorf("%s: nothing has a label %s in %s", where, name, expr)
			}
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
		t.Errorf("%s: brackets do not match in %s", where, expr)
	}
	return used
}

type panel struct {
	ID      int
	Title   string
	Type    string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ Expr string }
}

func TestDashboardUsesExistingMetrics(t *testing.T) {
	text, err := os.ReadFile("grafana/npctl.json")
	testutil.Must(t, err)
	var dashboard struct {
		Title, UID string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	testutil.Must(t, json.Unmarshal(text, &dashboard))
	shown, ids := map[string]bool{}, map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q has the id %d twice, or does not fit", p.Title, p.ID)
		}
		ids[p.ID] = true
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range check(t, p.Title, target.Expr) {
				shown[name] = true
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Definition != "" {
			check(t, "variable "+v.Name, v.Definition)
		}
	}
	for _, f := range metrics.Families() {
		if !shown[f.Name] && !shown[f.Name+"_bucket"] && !shown[f.Name+"_sum"] && f.Name != "npctl_watch_last_pass_timestamp_seconds" {
			t.Errorf("the dashboard does not show %s", f.Name)
		}
	}
}

func TestAlertsUseExistingMetrics(t *testing.T) {
	text, err := os.ReadFile("prometheus/alerts.yml")
	testutil.Must(t, err)
	if _, err := ctyyaml.ImpliedType(text); err != nil {
		t.Fatalf("alerts.yml is no YAML: %v", err)
	}
	rules := regexp.MustCompile(`(?m)^      - alert: (\w+)\n        expr: (.+)\n(?:        for: \d+[mhd]\n)?        labels: \{severity: (page|warning|info)\}\n        annotations:\n          summary: .+\n          description: .+$`).
		FindAllStringSubmatch(string(text), -1)
	if want := strings.Count(string(text), "- alert:"); len(rules) != want {
		t.Errorf("%d rules of %d have an expression, a severity, a summary and a description", len(rules), want)
	}
	names := map[string]bool{}
	for _, rule := range rules {
		if names[rule[1]] {
			t.Errorf("%s occurs twice", rule[1])
		}
		names[rule[1]] = true
		check(t, rule[1], rule[2])
	}
}

func TestWatchMetricsHaveAlerts(t *testing.T) {
	text := testutil.ReadFile(t, "prometheus/alerts.yml")
	for _, name := range []string{"npctl_watch_stalled_seconds", "npctl_node_requests_oldest_seconds", "npctl_provider_up", "npctl_leaks", "npctl_image_upload_age_seconds",
		"npctl_watch_last_pass_timestamp_seconds", "npctl_watch_config_stale", "npctl_state_commit_seconds", "npctl_requests_finished_total"} {
		if !strings.Contains(text, name) {
			t.Errorf("no alert uses %s", name)
		}
	}
}

func TestDockerfileMatchesGoModAndTargets(t *testing.T) {
	text := testutil.ReadFile(t, "docker/Dockerfile")
	mod, err := os.ReadFile(filepath.Join("..", "go.mod"))
	testutil.Must(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if !strings.Contains(text, "FROM --platform=$BUILDPLATFORM golang:"+string(version[1])+" ") {
		t.Errorf("go.mod wants Go %s, and the Dockerfile builds with another one", version[1])
	}
	for _, target := range []string{" AS watch", " AS builder"} {
		if !strings.Contains(text, target+"\n") {
			t.Errorf("the Dockerfile has no target%s", target)
		}
	}
}
