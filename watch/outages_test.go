package watch

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

func TestOutageIsLoggedAtItsStartAndEnd(t *testing.T) {
	var log bytes.Buffer
	now, postponed := time.Unix(1e9, 0), time.Time{}
	o := outages{log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now },
		lastPostponed: func(string) time.Time { return postponed }, unreachable: map[string]bool{}, responded: map[string]bool{}}
	works, fails := plan.ProviderView{ListedAt: now}, plan.ProviderView{Err: "no route"}
	launch := reconcile.Event{Kind: reconcile.EventFailed, Step: plan.Step{Provider: "one"}, Err: fmt.Errorf("launch: %w", reconcile.ErrProviderUnreachable)}
	for _, test := range []struct {
		name string
		do   func()
		want string // part of the log; empty when nothing is logged
	}{
		{"success", func() { o.onListing("one", plan.ProviderView{}, works) }, ""},
		{"first failure", func() { o.onListing("one", works, fails) }, "could not be listed"},
		{"second failure", func() { o.onListing("one", fails, fails) }, ""},
		{"rejected credentials", func() { o.onListing("one", fails, plan.ProviderView{Err: "forbidden", Rejected: true}) }, "could not be listed"},
		{"postponed launch", func() { postponed = now; o.onLaunchResult(launch, fails) }, ""},
		{"listing soon after", func() { o.onListing("one", fails, works) }, ""},
		{"listing later", func() { now = now.Add(outageEndDelay); o.onListing("one", works, works) }, "responds again"},
		{"another listing", func() { o.onListing("one", works, works) }, ""},
		{"new outage", func() { o.onLaunchResult(launch, works) }, "launches are postponed"},
	} {
		log.Reset()
		if test.do(); test.want == "" && log.Len() > 0 || !strings.Contains(log.String(), test.want) {
			t.Errorf("%s: log is %q, want %q", test.name, log.String(), test.want)
		}
	}
}
