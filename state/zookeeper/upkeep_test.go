//go:build integration

package zookeeper_test

import (
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/state/zookeeper"
)

func TestLockDirectoriesAreRemovedAfterEightHours(t *testing.T) {
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
			testutil.Must(t, s.Tidy(t.Context()))
			if got := tr.there(t, locks+"/200-0000000001"); got != tc.want {
				t.Errorf("the directory of a request that is gone: there %t, want %t", got, tc.want)
			}
			if !tr.there(t, locks+"/200-0000000002") || !tr.there(t, locks+"/200-0000000003"+held) {
				t.Error("the directory of an existing request, or a directory in use, was deleted")
			}
		})
	}
}

func TestRecordsWithoutDataAreRemoved(t *testing.T) {
	t.Parallel()
	const contender = "/lock/0123456789abcdef0123456789abcdef__lock__0000000000"
	const build, otherBuild = "/nodepool/images/a/builds/0123456789abcdef0123456789abcdef", "/nodepool/images/a/builds/1123456789abcdef0123456789abcdef"
	const upload = "/providers/cloud/images/0000000001"
	empty := []string{"/nodepool/requests/200-0000000001", "/nodepool/nodes/0000000001", "/nodepool/nodes/0000000001/lock", build, build + "/lock",
		build + "/providers", build + "/providers/cloud", build + "/providers/cloud/images", build + upload}
	kept := []string{"/nodepool/nodes/0000000002/lock", "/nodepool/nodes/0000000002" + contender, "/nodepool/nodes/0000000003", otherBuild, otherBuild + upload}
	for name, tc := range map[string]struct {
		later time.Duration
		want  bool
	}{"after a quarter of an hour": {15 * time.Minute, false}, "at first": {0, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			for _, path := range []string{"/nodepool", "/nodepool/requests", "/nodepool/nodes", "/nodepool/images", "/nodepool/images/a", "/nodepool/images/a/builds"} {
				tr.create(t, path, "")
			}
			for _, path := range empty {
				tr.create(t, path, "")
			}
			for _, path := range []string{"/nodepool/nodes/0000000002", "/nodepool/nodes/0000000002/lock", "/nodepool/nodes/0000000002" + contender, otherBuild, otherBuild + "/providers",
				otherBuild + "/providers/cloud", otherBuild + "/providers/cloud/images"} {
				tr.create(t, path, "")
			}
			tr.create(t, otherBuild+upload, `{"state": "ready", "state_time": 1700000000}`)
			tr.create(t, "/nodepool/nodes/0000000003", "not JSON")
			s := tr.open(t, silent, func(o *zookeeper.Options) { o.Now = func() time.Time { return time.Now().Add(tc.later) } })
			for range 2 { // a build is deleted after its uploads
				testutil.Must(t, s.Tidy(t.Context()))
				testutil.Must(t, s.Sync(t.Context()))
			}
			for _, path := range empty {
				if got := tr.there(t, path); got != tc.want {
					t.Errorf("%s: there %t, want %t", path, got, tc.want)
				}
			}
			for _, path := range kept {
				if !tr.there(t, path) {
					t.Errorf("%s is gone", path)
				}
			}
		})
	}
}
