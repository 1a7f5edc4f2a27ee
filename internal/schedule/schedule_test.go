package schedule

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z"} {
		if moment, err := time.Parse(layout, text); err == nil {
			return moment
		}
	}
	t.Fatalf("no time: %s", text)
	return time.Time{}
}

// openings lists the periods in which the window is open, by the state at each minute.
func openings(t *testing.T, w *Window, from, to string) string {
	t.Helper()
	var all []string
	wasOpen := false
	for now, end := at(t, from), at(t, to); now.Before(end); now = now.Add(time.Minute) {
		switch s := w.At(now); {
		case s.Open && !wasOpen:
			all = append(all, now.Format("02 15:04")+"-")
			wasOpen = true
		case !s.Open && wasOpen:
			all[len(all)-1] += now.Format("02 15:04")
			wasOpen = false
		}
	}
	return strings.Join(all, ", ")
}

// TestWindowsWhenClocksChange has the days on which the clocks change, in UTC.
func TestWindowsWhenClocksChange(t *testing.T) {
	for name, test := range map[string]struct {
		cron, zone string
		duration   time.Duration
		from, to   string
		want       string
	}{
		"spring: a start that is skipped is the first instant after the gap": {
			"30 2 * * *", "Europe/Berlin", time.Hour, "2027-03-28T00:00Z", "2027-03-28T23:00Z", "28 01:00-28 02:00"},
		"spring: the duration is elapsed time": {
			"0 22 * * sat", "Europe/Berlin", 8 * time.Hour, "2027-03-27T12:00Z", "2027-03-28T23:00Z", "27 21:00-28 05:00"},
		"spring: later starts are wall time": {
			"0 8 * * *", "Europe/Berlin", time.Hour, "2027-03-28T00:00Z", "2027-03-28T23:00Z", "28 06:00-28 07:00"},
		"spring: two skipped starts are one": {
			"0,30 2 * * *", "Europe/Berlin", 10 * time.Minute, "2027-03-28T00:00Z", "2027-03-28T23:00Z", "28 01:00-28 01:10"},
		"autumn: a repeated start is the first of both": {
			"30 2 * * *", "Europe/Berlin", 30 * time.Minute, "2027-10-30T23:00Z", "2027-10-31T20:00Z", "31 00:30-31 01:00"},
		"autumn: an open window has its duration": {
			"0 1 * * *", "Europe/Berlin", 3 * time.Hour, "2027-10-30T12:00Z", "2027-10-31T20:00Z", "30 23:00-31 02:00"},
		"autumn: every half hour continues": {
			"*/30 * * * *", "Europe/Berlin", 10 * time.Minute, "2027-10-30T23:59Z", "2027-10-31T02:59Z",
			"31 00:00-31 00:10, 31 00:30-31 00:40, 31 01:00-31 01:10, 31 01:30-31 01:40, 31 02:00-31 02:10, 31 02:30-31 02:40"},
		"a gap of half an hour": {
			"15 2 * * *", "Australia/Lord_Howe", time.Hour, "2027-10-02T12:00Z", "2027-10-03T12:00Z", "02 15:30-02 16:30"},
		"an overlap of half an hour": {
			"45 1 * * *", "Australia/Lord_Howe", 10 * time.Minute, "2027-04-03T12:00Z", "2027-04-04T12:00Z", "03 14:45-03 14:55"},
		"a day without midnight": {
			"0 0 * * *", "America/Sao_Paulo", time.Hour, "2018-11-03T12:00Z", "2018-11-04T12:00Z", "04 03:00-04 04:00"},
		"a day without midnight, after a day that does not match": {
			"0 0 * * sun", "America/Sao_Paulo", time.Hour, "2018-11-03T12:00Z", "2018-11-04T12:00Z", "04 03:00-04 04:00"},
		"reversed: an overlap in winter": {
			"30 2 * * *", "Africa/Casablanca", time.Hour, "2027-02-06T20:00Z", "2027-02-07T20:00Z", "07 01:30-07 02:30"},
		"reversed: a gap at the end of winter": {
			"30 2 * * *", "Africa/Casablanca", time.Hour, "2027-03-13T20:00Z", "2027-03-14T20:00Z", "14 02:00-14 03:00"},
		"a whole day that a zone skips": {
			"0 12 * * fri", "Pacific/Apia", time.Hour, "2011-12-29T00:00Z", "2011-12-31T12:00Z", "30 10:00-30 11:00"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := New(test.cron, test.duration, test.zone)
			if err != nil {
				t.Fatal(err)
			}
			if got := openings(t, w, test.from, test.to); got != test.want {
				t.Errorf("open %s, want %s", got, test.want)
			}
		})
	}
}

func TestStartBelongsToWindowAndEndDoesNot(t *testing.T) {
	w, err := New("0 1 * * mon", 4*time.Hour, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	monday, next := at(t, "2027-03-01T01:00Z"), at(t, "2027-03-08T01:00Z")
	for _, test := range []struct {
		now  string
		want State
	}{
		{"2027-03-01T00:59:59Z", State{Opens: monday}},
		{"2027-03-01T01:00:00Z", State{Open: true, Opens: next, Ends: monday.Add(4 * time.Hour)}},
		{"2027-03-01T04:59:59Z", State{Open: true, Opens: next, Ends: monday.Add(4 * time.Hour)}},
		{"2027-03-01T05:00:00Z", State{Opens: next}},
	} {
		got := w.At(at(t, test.now))
		if got.Open != test.want.Open || !got.Opens.Equal(test.want.Opens) || !got.Ends.Equal(test.want.Ends) {
			t.Errorf("%s: %+v, want %+v", test.now, got, test.want)
		}
	}
}

func TestTimesAreInZoneOfWindow(t *testing.T) {
	w, err := New("0 22 * * sat", 8*time.Hour, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.At(at(t, "2027-03-28T00:00Z")).Ends.Format(time.RFC3339); got != "2027-03-28T07:00:00+02:00" {
		t.Errorf("the window ends at %s", got)
	}
}

func TestWindowLongerThanItsPeriodIsAlwaysOpen(t *testing.T) {
	w, err := New("0 1 * * *", 48*time.Hour, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	if got := openings(t, w, "2027-03-01T00:00Z", "2027-03-01T12:00Z"); got != "01 00:00-" {
		t.Errorf("open %s", got)
	}
	if s := w.At(at(t, "2027-03-01T00:00Z")); !s.Open || !s.Ends.IsZero() {
		t.Errorf("%+v has an end", s)
	}
}

func TestExpressions(t *testing.T) {
	for expression, want := range map[string]string{
		"0 12 * * sat-sun":    "06 07 13",
		"0 12 * * 6-7":        "06 07 13",
		"0 12 * * 7":          "07 14 21",
		"0 12 * * 0":          "07 14 21",
		"0 12 * * fri-mon":    "01 05 06",
		"0 12 */10 * *":       "01 11 21",
		"0 12 15 * mon":       "01 08 15", // either of both
		"0 12 * mar mon#":     "",
		"0 12 1-5/2 MAR *":    "01 03 05",
		"0 12 * * 1,wed":      "01 03 08",
		"0 12 5-3 * *":        "",
		"60 12 * * *":         "",
		"0 12 * * 8":          "",
		"0 12 * *":            "",
		"0 12 * * mon 2027":   "",
		"*/0 * * * *":         "",
		"@daily":              "",
		"":                    "",
		"0 12 0 * *":          "",
		"TZ=UTC 0 12 * * mon": "",
	} {
		w, err := New(expression, time.Hour, "UTC")
		if err != nil {
			if want != "" {
				t.Errorf("%q: %v", expression, err)
			}
			continue
		}
		var days []string
		for now := at(t, "2027-03-01T00:00Z"); len(days) < 3; {
			now = w.next(now)
			days = append(days, now.Format("02"))
		}
		if got := strings.Join(days, " "); got != want {
			t.Errorf("%q starts on the days %s, want %q", expression, got, want)
		}
	}
}

func TestRefusedExpressionsNameTheValue(t *testing.T) {
	for expression, want := range map[string]string{
		"0 1 * *":     "has 4 fields",
		"0 25 * * *":  `the hour "25" is not from 0 to 23`,
		"0 1 * * mo":  `the day of week "mo" is not from 0 to 7`,
		"0 1 31 2 *":  "never occurs",
		"0 5-3 * * *": `the hour "5-3" ends before it starts`,
	} {
		if err := CheckExpression(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", expression, err, want)
		}
	}
	if err := CheckExpression("0 1 29 2 *"); err != nil {
		t.Error(err)
	}
	for _, zone := range []string{"Mars/Olympus", "Local", "", "../etc"} {
		if _, err := Zone(zone); err == nil {
			t.Errorf("zone %q is accepted", zone)
		}
	}
	for _, duration := range []time.Duration{0, time.Second, MaxDuration + 1} {
		if _, err := New("0 1 * * *", duration, "UTC"); err == nil {
			t.Errorf("duration %s is accepted", duration)
		}
	}
}

// TestStateAgreesWithItsTimes: the state changes at the times that it announces, and at no other.
func TestStateAgreesWithItsTimes(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "America/Sao_Paulo"}
	crons := []string{"30 2 * * *", "0 0 * * sun", "*/20 1-3 * * *", "0 22 28 * *", "15 * * * *"}
	rapid.Check(t, func(t *rapid.T) {
		w, err := New(rapid.SampledFrom(crons).Draw(t, "cron"), time.Duration(rapid.IntRange(1, 600).Draw(t, "minutes"))*time.Minute, rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(rapid.Int64Range(1_500_000_000, 1_900_000_000).Draw(t, "now"), 0)
		s := w.At(now)
		switch {
		case s.Open && !s.Ends.IsZero():
			if !w.At(s.Ends.Add(-time.Second)).Open || w.At(s.Ends).Open {
				t.Errorf("%s: open until %s is wrong", now.UTC(), s.Ends)
			}
		case !s.Open:
			if w.At(s.Opens.Add(-time.Second)).Open || !w.At(s.Opens).Open {
				t.Errorf("%s: opens at %s is wrong", now.UTC(), s.Opens)
			}
		}
	})
}
