package load

import (
	"testing"
	"time"
)

func TestPercentilesAreMeasuredValues(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i))
	}
	if got, want := percentiles(all), (Percentiles{P50: 50, P95: 95, P99: 99, Max: 100}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := percentiles(all[:1]), (Percentiles{100, 100, 100, 100}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := percentiles(nil); got != (Percentiles{}) {
		t.Errorf("got %+v of nothing", got)
	}
}

func TestContenderWaitsForItsPredecessor(t *testing.T) {
	names := []string{"aa__lock__0000000007", "ff__lock__0000000003", "_c_x-lock-0000000001", "bb__lock__0000000010"}
	for own, want := range map[string]string{
		"ff__lock__0000000003": "", "aa__lock__0000000007": "ff__lock__0000000003", "bb__lock__0000000010": "aa__lock__0000000007"} {
		if got, err := predecessor(names, own); err != nil || got != want {
			t.Errorf("%s waits for %q, %v; want %q", own, got, err, want)
		}
	}
	if _, err := predecessor(names, "gone__lock__0000000002"); err == nil {
		t.Error("a contender that is not there has its turn")
	}
}
