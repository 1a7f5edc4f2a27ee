//go:build integration

package zookeeper_test

import (
	"testing"
	"time"

	"github.com/npctl/npctl/state/zookeeper"
)

func TestLockDirectoriesGoEightHoursAfterTheirRequests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		later time.Duration
		want  bool
	}{"after nine hours": {9 * time.Hour, false}, "after seven hours": {7 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			const locks, held = "/nodepool/requests-lock", "/0123456789abcdef0123456789abcdef__lock__0000000000"
			for _, path := range []string{"/nodepool", locks, "/nodepool/requests", locks + "/200-0000000001", locks + "/200-0000000002",
				locks + "/200-0000000003", locks + "/200-0000000003" + held, "/nodepool/requests/200-0000000002"} {
				tr.create(t, path, "")
			}
			s := tr.open(t, func(o *zookeeper.Options) { o.Now = func() time.Time { return time.Now().Add(tc.later) } })
			must(t, s.Tidy(t.Context()))
			if got := tr.there(t, locks+"/200-0000000001"); got != tc.want {
				t.Errorf("the directory of a request that is gone: there %t, want %t", got, tc.want)
			}
			if !tr.there(t, locks+"/200-0000000002") || !tr.there(t, locks+"/200-0000000003"+held) {
				t.Error("the directory of a request that there is, or one that somebody is in, is gone")
			}
		})
	}
}
