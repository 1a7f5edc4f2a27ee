package cloudkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "30": 30 * time.Second, "-1": 0, "soon": 0, "99999999": maxRetryAfter,
		time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat): maxRetryAfter, "Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		if got := RetryAfter(value); got != want {
			t.Errorf("RetryAfter(%q) = %s, want %s", value, got, want)
		}
	}
}

func TestErrorNamesWhatItKnows(t *testing.T) {
	for want, e := range map[string]Error{
		"do it: InUse: wait":          {Code: "InUse", Status: 409, Request: "r-1"},
		"do it: wait":                 {Status: 404},
		"do it: Internal: wait [r-1]": {Code: "Internal", Status: 500, Request: "r-1"},
		"do it: Unknown: wait":        {Code: "Unknown", Status: 502},
	} {
		if e.Doing, e.Message = "do it", "wait"; e.Error() != want {
			t.Errorf("got %q, want %q", e.Error(), want)
		}
	}
}

func TestOnlyRejectionsProveThatNothingWasDone(t *testing.T) {
	for _, test := range []struct {
		e    Error
		want bool
	}{
		{Error{}, false}, {Error{Status: 302}, false}, {Error{Status: 400}, true}, {Error{Status: 408}, false}, {Error{Status: 429}, true},
		{Error{Status: 500}, false}, {Error{Status: 500, Proven: true}, true}, {Error{Status: 409, Unproven: true}, false},
	} {
		if got := drivers.IsNothingDone(fmt.Errorf("wrapped: %w", &test.e)); got != test.want {
			t.Errorf("%+v: nothing done: %t", test.e, got)
		}
	}
}

func TestMissingObjectIsNoError(t *testing.T) {
	missing, other := fmt.Errorf("wrapped: %w", &Error{Status: 404, Code: "Gone"}), &Error{Status: 409}
	if !IsMissing(missing) || IsMissing(other) || IsMissing(nil) || CodeOf(missing) != "Gone" || CodeOf(nil) != "" {
		t.Error("a missing object is not detected by its status")
	}
	if UnlessMissing(missing) != nil || !errors.Is(UnlessMissing(other), other) {
		t.Error("UnlessMissing returns another error than that of an object that exists")
	}
}

func TestTransportErrorsAreClassified(t *testing.T) {
	refused := &url.Error{Op: "Post", URL: "http://cloud", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	reset := &url.Error{Op: "Post", URL: "http://cloud", Err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}
	for name, test := range map[string]struct {
		err                  error
		unavailable, nothing bool
	}{
		"canceled": {WrapTransport("do it", context.Canceled), false, false},
		"late":     {WrapTransport("do it", context.DeadlineExceeded), false, false},
		"refused":  {WrapTransport("do it", refused), true, true},
		"reset":    {WrapTransport("do it", reset), true, false},
		"http":     {WrapHTTP("do it", "", refused), true, true},
		"cut":      {WrapHTTP("do it", "", reset), true, false},
		"strange":  {WrapHTTP("do it", "", errors.New("invalid character")), false, false},
	} {
		if errors.Is(test.err, drivers.ErrUnavailable) != test.unavailable || drivers.IsNothingDone(test.err) != test.nothing {
			t.Errorf("%s: unavailable: %t, nothing done: %t", name, !test.unavailable, drivers.IsNothingDone(test.err))
		}
		if !strings.HasPrefix(test.err.Error(), "do it: ") {
			t.Errorf("%s: %q lacks the operation", name, test.err)
		}
	}
}

func TestConsoleReturnsWholeNewestLines(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	got := Console("first\n" + strings.Repeat(line, 1000) + "last")
	if len(got) > ConsoleBytes || len(got) < ConsoleBytes-len(line) || strings.Trim(got, "x\n") != "last" || !strings.HasPrefix(got, line) {
		t.Errorf("%d bytes, %.200q…", len(got), got)
	}
	if got := Console("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
}

func TestUseIsThatOfARecentList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r RecentList
		cores := func(n int64) []resources.Instance {
			return []resources.Instance{{Resources: resources.ResourceAmounts{Cores: n}}, {Resources: resources.ResourceAmounts{Cores: 1}}}
		}
		list := func(context.Context) ([]resources.Instance, error) { return cores(1), nil }
		want := func(cores int64, when string) {
			t.Helper()
			if used, err := r.Used(t.Context(), list); err != nil || used.Cores != cores {
				t.Errorf("%s: %d cores, %v, want %d", when, used.Cores, err, cores)
			}
		}
		want(2, "before the first list")
		r.Set(cores(8))
		want(9, "after a list")
		time.Sleep(recent)
		want(2, "after an old list")
	})
}

func TestLimitsOfConfiguration(t *testing.T) {
	one, want := int64(1), resources.NoLimits()
	want.Cores = 1
	if got := Limits(nil, &one, nil); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestObjectOfAnotherRecordIsNotAdopted(t *testing.T) {
	own, other := resources.OwnerTags{Installation: "i", ID: "1"}, resources.OwnerTags{Installation: "i", ID: "2"}
	for name, test := range map[string]struct {
		found, replaced resources.OwnerTags
		ok              bool
	}{
		"free": {resources.OwnerTags{}, resources.OwnerTags{}, true}, "own": {own, resources.OwnerTags{}, true},
		"other": {other, resources.OwnerTags{}, false}, "replaced": {other, other, true},
	} {
		if err := CheckAdoptable("server", "s", test.found, own, test.replaced); (err == nil) != test.ok || err != nil && !errors.Is(err, drivers.ErrNotOurs) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNodepoolIsDescribedByItsTags(t *testing.T) {
	for want, tags := range map[string]map[string]string{
		"":                              {"name": "x"},
		"Nodepool, provider p":          {"nodepool_provider_name": "p"},
		"Nodepool, provider p, ID 1":    {"nodepool_provider_name": "p", "nodepool_node_id": "1"},
		"Nodepool, provider p, ID 0002": {"nodepool_provider_name": "p", "nodepool_upload_id": "0002"},
	} {
		if got := NodepoolText(tags); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPlannedValuesAreJSON(t *testing.T) {
	got := PlannedValues(map[string]any{"cores": 2, "zones": []string{"a"}, "network": "n"})
	if want := map[string]string{"cores": "2", "zones": `["a"]`, "network": `"n"`}; !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChangedFileIsRejected(t *testing.T) {
	const content, sum = "image", "6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d"
	for _, test := range []struct {
		spec drivers.ImageSpec
		text string // of the error
	}{
		{drivers.ImageSpec{Size: 5, SHA256: strings.ToUpper(sum)}, ""}, {drivers.ImageSpec{}, ""},
		{drivers.ImageSpec{Size: 4, SHA256: sum}, "its size is 5, expected 4"}, {drivers.ImageSpec{Size: 5, SHA256: "ab"}, "its SHA-256 is " + sum + ", expected ab"},
	} {
		sums := NewFileSums()
		_, _ = sums.Write([]byte(content[:2]))
		_, _ = sums.Write([]byte(content[2:]))
		err := sums.Check(test.spec)
		if (err == nil) != (test.text == "") || err != nil && (!errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), test.text)) {
			t.Errorf("%+v: %v, want %q", test.spec, err, test.text)
		}
	}
}

func TestPatternsOfFiltersMatchSlashes(t *testing.T) {
	for pattern, want := range map[string]bool{"a/b*": true, "*": true, "a?b-c": true, "b*": false, "[": false} {
		if got := MatchesPattern("a/b-c", pattern); got != want {
			t.Errorf("%q matches: %t", pattern, got)
		}
	}
}

func TestDecodeErrorIsRejected(t *testing.T) {
	var into struct {
		Cores int64 `config:"cores"`
	}
	err := Decode(cty.ObjectVal(map[string]cty.Value{"cores": cty.StringVal("x")}), &into)
	if !errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) {
		t.Errorf("got %v", err)
	}
}

func TestPollEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		err := Poll(t.Context(), "image i", func() (bool, error) { reads++; return reads == 3, nil })
		if err != nil || reads != 3 {
			t.Errorf("%d reads, %v", reads, err)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = Poll(late, "image i", func() (bool, error) { return false, nil })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "wait for image i: ") {
			t.Errorf("got %v", err)
		}
		transient := errors.New("reset")
		if IsFinal(t.Context(), nil) || IsFinal(t.Context(), transient) || !IsFinal(t.Context(), drivers.Rejectf("no")) || !IsFinal(late, transient) {
			t.Error("only rejections, and errors after the end of the context, are final")
		}
	})
}

func TestCleanUpRunsAfterTheEndOfItsContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	attempt := errors.New("upload failed")
	err := CleanUp(ended, time.Minute, attempt, "its disk was not deleted", func(ctx context.Context) error { return ctx.Err() })
	if err != attempt { //nolint:errorlint // unchanged
		t.Errorf("got %v", err)
	}
	err = CleanUp(ended, time.Minute, attempt, "its disk was not deleted", func(context.Context) error { return errors.New("in use") })
	if !errors.Is(err, attempt) || err.Error() != "upload failed (its disk was not deleted: in use)" {
		t.Errorf("got %v", err)
	}
}

func TestPartsAreRepeatedUnlessRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, failure := range map[int]error{partTries: errors.New("reset"), 1: drivers.Rejectf("no")} {
			tries := 0
			err := SendPart(t.Context(), time.Minute, func(context.Context) error { tries++; return failure })
			if tries != want || !errors.Is(err, failure) {
				t.Errorf("%d tries, want %d: %v", tries, want, err)
			}
		}
	})
}

func TestSentBytesDoNotExceedTheSize(t *testing.T) {
	var reported []int64
	s := &Sent{Report: func(n int64) { reported = append(reported, n) }, Size: 5}
	for _, n := range []int{3, 0, 4} {
		s.Add(n)
	}
	(&Sent{}).Add(1)
	if !reflect.DeepEqual(reported, []int64{3, 5}) {
		t.Errorf("got %v", reported)
	}
}

func TestTableKeepsWhatIsNeeded(t *testing.T) {
	var table Table[string, int]
	table.Delete("a")
	table.Set("a", 1)
	table.Set("b", 2)
	table.DeleteUnless(func(key string) bool { return key == "b" })
	_, a := table.Get("a")
	if b, ok := table.Get("b"); a || !ok || b != 2 {
		t.Errorf("a: %t, b: %d", a, b)
	}
	table.Replace(map[string]int{"c": 3})
	if _, ok := table.Get("b"); ok {
		t.Error("Replace keeps an earlier key")
	}
}

func TestAddressToConnectToIsChosen(t *testing.T) {
	all := resources.Addresses{PublicIPv4: "192.0.2.1", PublicIPv6: "2001:db8::1", PrivateIPv4: "10.0.0.1"}
	if ConnectTo(all, "") != "192.0.2.1" || ConnectTo(all, PrivateInterface) != "10.0.0.1" || ConnectTo(resources.Addresses{PublicIPv6: "2001:db8::1"}, "") != "2001:db8::1" ||
		ConnectTo(resources.Addresses{}, "") != "" {
		t.Error("another address than the first that exists")
	}
}

func TestValuesOfTagsAreCutToWholeCharacters(t *testing.T) {
	for value, want := range map[string]string{"abc": "abc", "abcde": "abcd", "abc\u00e9": "abc", "a\xff": "a\uFFFD"} {
		if got := CutValue(value, 4); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}

func TestEarlierInstanceIsSearchedAfterALostResponse(t *testing.T) {
	lost := errors.New("reset")
	for name, test := range map[string]struct {
		maybe, found bool
		err          error
		done         bool
	}{"first call": {false, true, nil, false}, "found": {true, true, nil, true}, "none": {true, false, nil, false}, "error": {true, false, lost, true}} {
		_, done, err := Earlier(drivers.Spec{MaybeCreated: test.maybe}, func() (resources.Instance, bool, error) { return resources.Instance{}, test.found, test.err })
		if done != test.done || !errors.Is(err, test.err) || err != nil && !drivers.IsNothingDone(err) {
			t.Errorf("%s: done %t, %v", name, done, err)
		}
	}
}

// TestChangedLeftoverIsRefused: a leftover that another object uses by now is not deleted, whatever it was attached to before.
func TestChangedLeftoverIsRefused(t *testing.T) {
	marks := resources.OwnerTags{Installation: "i", Kind: resources.KindNode, ID: "1"}
	free := resources.Leftover{Type: resources.LeftoverVolume, ID: "v", Marks: marks}
	used, elsewhere, unnamed, foreign := free, free, free, free
	unnamed.InUse = true
	used.InUse, used.Server = true, "a"
	elsewhere.InUse, elsewhere.Server = true, "b"
	foreign.Marks.ID = "2"
	for _, c := range []struct {
		listed, now resources.Leftover
		refused     bool
	}{
		{free, free, false}, {used, used, false}, {used, free, false},
		{free, used, true}, {used, elsewhere, true}, {free, foreign, true}, {unnamed, unnamed, true}, {used, unnamed, true}, {resources.Leftover{ID: "v"}, resources.Leftover{ID: "v"}, true},
	} {
		if err := CheckLeftover(c.listed, c.now); errors.Is(err, drivers.ErrNotOurs) != c.refused {
			t.Errorf("listed %+v, now %+v: %v", c.listed, c.now, err)
		}
	}
}
