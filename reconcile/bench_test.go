package reconcile_test

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/plan"
)

// BenchmarkRefresh lists two clouds, one of them with 300 nodes of this installation, and plans. The call count covers
// one refresh of that cloud, including login and version documents.
func BenchmarkRefresh(b *testing.B) {
	config := strings.NewReplacer(`label "small" { min_ready = 2 }`, `label "small" { min_ready = 300 }`,
		"      auto_floating_ip  = true\n", "", `image_format = "raw"`, "image_format = \"raw\"\n  rate = 0\n  max_concurrency = 100").Replace(twoClouds)
	unlimited := emulator.Unlimited()
	l := newLab(b, config, emulator.Options{Quota: &unlimited})
	if p, _, err := l.run(b.Context(), plan.Options{}); err != nil {
		b.Fatalf("%v\n%s", err, text(p))
	}
	cloud := l.driver.Clouds["one"]
	cloud.ResetCalls()
	b.ReportAllocs()
	for b.Loop() {
		if p := l.plan(plan.Options{}); len(p.Steps) > 0 {
			b.Fatalf("there is something to do:\n%s", text(p))
		}
	}
	b.ReportMetric(float64(cloud.Calls()["total"])/float64(b.N), "calls/refresh")
}
