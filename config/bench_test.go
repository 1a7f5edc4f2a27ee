package config

import (
	"fmt"
	"strings"
	"testing"
)

// fleet returns a configuration of at least 10,000 lines with an offer for each label in each provider.
func fleet(labels, providers int) string {
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, "diskimage \"image%d\" {\n  builder \"dib\" {\n    elements = [\"debian-minimal\", \"vm\"]\n    release  = \"r%d\"\n  }\n}\n", i, i)
	}
	for i := range labels {
		fmt.Fprintf(&b, "label \"label%d\" {\n  min_ready = %d\n}\n", i, i%3)
	}
	for p := range providers {
		fmt.Fprintf(&b, "provider \"acme\" \"cloud%d\" {\n  cloud  = \"x\"\n  region = \"r%d\"\n  pool \"main\" {\n    max_servers = 100\n    networks    = [\"public\"]\n", p, p)
		for i := range labels {
			fmt.Fprintf(&b, "    label \"label%d\" {\n      image  = diskimage.image%d\n      flavor = \"m%d\"\n    }\n", i, i%20, i%7)
		}
		b.WriteString("  }\n}\n")
	}
	return b.String()
}

func BenchmarkLoad(b *testing.B) {
	for _, size := range []struct{ labels, providers int }{{100, 20}, {300, 20}} {
		src := fleet(size.labels, size.providers)
		b.Run(fmt.Sprintf("labels=%d/providers=%d/lines=%d", size.labels, size.providers, strings.Count(src, "\n")), func(b *testing.B) {
			opts := write(b, map[string]string{"main.hcl": src})
			b.ReportAllocs()
			for b.Loop() {
				if _, diags := Load(opts); diags.HasErrors() {
					b.Fatal(diags)
				}
			}
		})
	}
}

// BenchmarkLoadStaticNodes shows whether the cost of a node depends on their number.
func BenchmarkLoadStaticNodes(b *testing.B) {
	for _, nodes := range []int{1000, 10000} {
		var src strings.Builder
		src.WriteString("label \"metal\" {}\nprovider \"static\" \"rack\" {\n  pool \"main\" {\n")
		for i := range nodes {
			fmt.Fprintf(&src, "    node \"m%d\" {\n      labels = [\"metal\"]\n    }\n", i)
		}
		src.WriteString("  }\n}\n")
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			opts := write(b, map[string]string{"main.hcl": src.String()})
			for b.Loop() {
				if _, diags := Load(opts); diags.HasErrors() {
					b.Fatal(diags)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*nodes), "µs/node")
		})
	}
}
