package main

import (
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

func TestDataIsBesideTheState(t *testing.T) {
	for path, want := range map[string]string{
		"/srv/npctl.db":             "/srv/.npctl/providers",
		"/srv/.npctl/npctl.db":      "/srv/.npctl/providers",
		"/srv/state/.npctl/fleet.d": "/srv/state/.npctl/providers",
	} {
		if got := dataDir(path); got != want {
			t.Errorf("dataDir(%s) = %s, want %s", path, got, want)
		}
	}
}

func TestBuildsAreListedByTime(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	var entries []state.Entry
	for _, r := range []resources.Record{
		&resources.ImageRecord{Name: "a"},
		&resources.Build{ID: "1", Image: "b", Created: at(1)},
		&resources.Build{ID: "2", Image: "a", Created: at(9)},
		&resources.Build{ID: "3", Image: "a", Created: at(5)},
		&resources.Build{ID: "4", Image: "a", Created: at(7)},
		&resources.Node{ID: "1", Created: at(8)},
		&resources.Node{ID: "2", Created: at(6)},
	} {
		entries = append(entries, state.Entry{Record: r})
	}
	sortBuilds(entries)
	var got []string
	for _, e := range entries {
		got = append(got, recordAddress(e.Record))
	}
	want := "image.a .build.3 .build.4 .build.2 .build.1 node.1 node.2"
	if text := strings.NewReplacer("a.build", "build", "b.build", "build").Replace(strings.Join(got, " ")); text != want {
		t.Errorf("order is %s, want %s", text, want)
	}
	sortBuilds(nil)
}
