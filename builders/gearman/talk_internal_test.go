package gearman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

func TestLongLogIsCut(t *testing.T) {
	var log bytes.Buffer
	l := &limited{to: &log, left: 10}
	for range 3 {
		if n, err := l.Write([]byte("12345678")); n != 8 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	if want := "1234567812\nnpctl: the log is longer; the rest is on the build host\n"; log.String() != want {
		t.Errorf("log is %q, want %q", &log, want)
	}
}

func TestLocksKeepJobsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all locks
		var mu sync.Mutex
		makers, senders := map[string]int{}, map[string]int{}
		count := func(of map[string]int, id string, n int) {
			mu.Lock()
			defer mu.Unlock()
			of[id] += n
			if makers[id] > 1 || makers[id] > 0 && senders[id] > 0 {
				t.Errorf("%s: %d make or remove it, %d upload it", id, makers[id], senders[id])
			}
		}
		var work sync.WaitGroup
		for n := range rapid.IntRange(1, 20).Draw(t, "jobs") {
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, fmt.Sprint("id", n))
			acquire, of := all.shared, senders
			if rapid.Bool().Draw(t, fmt.Sprint("exclusive", n)) {
				acquire, of = all.exclusive, makers
			}
			work.Go(func() {
				unlock, err := acquire(context.Background(), id)
				if err != nil {
					t.Error(err)
					return
				}
				count(of, id, 1)
				count(of, id, -1)
				unlock()
			})
		}
		work.Wait()
		if len(all.byID) > 0 {
			t.Errorf("left behind: %v", all.byID)
		}
	})
}

func TestWaitForALockEndsWithTheContext(t *testing.T) {
	var all locks
	unlock, err := all.exclusive(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if _, err := all.shared(ctx, "a"); !errors.Is(err, reason) {
		t.Errorf("got %v, want %v", err, reason)
	}
	unlock()
	if len(all.byID) > 0 {
		t.Errorf("left behind: %v", all.byID)
	}
}

func TestNamesAreNoPathsAndNoListings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z/. \x00-]{0,6}`)).Draw(t, "name")
		if checkName(name) == nil && (name == "" || strings.ContainsAny(name, "/ \x00\t\n\r") || strings.Trim(name, ".") == "" && len(name) < 3) {
			t.Errorf("%q is accepted", name)
		}
	})
}

func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"image-id": "42", "npctl": {"formats": ["raw"], "timeout": 3, "reports": true}}`))
	f.Add([]byte(`{"provider": "p", "image-name": "i", "npctl": {"marks": {"kind": "upload"}, "tags": ["a"]}}`))
	f.Add([]byte(`{"external-id": 17}`))
	f.Add([]byte(`{"versions": [{"id": "a", "time": "2026-03-01T12:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := readBuildRequest(data); err == nil && (checkName(string(r.ID)) != nil || r.Npctl == nil) {
			t.Errorf("%q is accepted as %+v", data, r)
		}
		if r, err := readSendRequest(data); err == nil && (r.Provider == "" || r.Image == "" || r.Npctl == nil) {
			t.Errorf("%q is accepted as %+v", data, r)
		}
		if a, err := readBuildAnswer(data, "id"); err == nil {
			for _, file := range a.Files {
				if strings.Contains(file.Name, "/") {
					t.Errorf("%q is accepted as %+v", data, a)
				}
			}
		}
		if list, err := readVersions(data); err == nil && slices.ContainsFunc(list, func(v resources.Version) bool { return checkName(v.ID) != nil }) {
			t.Errorf("%q is accepted as %+v", data, list)
		}
		if id, err := readSendAnswer(data); err == nil && id == "" {
			t.Errorf("%q is accepted without an id", data)
		}
	})
}
