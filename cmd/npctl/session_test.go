package main

import (
	"testing"

	"github.com/npctl/npctl/resources"
)

func TestParallelismLowersTheLimitOfEveryProvider(t *testing.T) {
	for _, c := range []struct {
		limit       int64
		parallelism int
		want        int64
	}{{20, 0, 20}, {20, 3, 3}, {2, 3, 2}, {0, 3, 3}} {
		providers := []resources.Provider{{MaxConcurrency: c.limit}}
		limitSteps(providers, c.parallelism)
		if got := providers[0].MaxConcurrency; got != c.want {
			t.Errorf("max_concurrency %d with -parallelism=%d is %d, want %d", c.limit, c.parallelism, got, c.want)
		}
	}
}
