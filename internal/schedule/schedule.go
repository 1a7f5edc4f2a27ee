// Package schedule computes when a recurring window of time is open, by a cron expression, a duration and a time zone.
//
// The rules:
//
//   - A window is open from its start to its end, without the end. Its duration is elapsed time, also when clocks change.
//   - A start in the hour that a change of the clocks skips is the first instant after the change. A start in the hour that
//     is repeated is the first of both.
//   - An expression for every hour, such as "*/30 * * * *", ignores changes of the clocks.
//
// Wall times are only ever computed from instants: the instant of a wall time is ambiguous.
package schedule

import (
	"errors"
	"fmt"
	"time"
)

// MaxDuration is the longest duration of a window.
const MaxDuration = 366 * 24 * time.Hour

// horizon is the time after which an expression without a match is taken to match never. 29 February may be
// eight years away.
const horizon = 9 * 366 * 24 * time.Hour

// Window is a recurring window of time.
type Window struct {
	cron     cron
	duration time.Duration
	zone     *time.Location
}

// New returns the window that opens at the times of a cron expression in a time zone.
func New(expression string, duration time.Duration, zone string) (*Window, error) {
	c, err := parseCron(expression)
	if err != nil {
		return nil, err
	}
	location, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	if duration < time.Minute || duration > MaxDuration {
		return nil, fmt.Errorf("the duration %s is not between 1m and %dd", duration, MaxDuration/(24*time.Hour))
	}
	return &Window{c, duration, location}, nil
}

// CheckExpression reports whether an expression is valid and matches some time.
func CheckExpression(expression string) error {
	c, err := parseCron(expression)
	if err != nil {
		return err
	}
	w := Window{cron: c, zone: time.UTC}
	if w.next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return fmt.Errorf("%q never occurs: no month has this day", expression)
	}
	return nil
}

// Zone returns the time zone with an IANA name.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "Local" { // would depend on the host
		return nil, errors.New("the name of the time zone is missing; write a name such as \"Europe/Berlin\" or \"UTC\"")
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("there is no time zone %q; write an IANA name such as \"Europe/Berlin\" or \"UTC\"", name)
	}
	return location, nil
}

// State is a window at a moment. Its times are in the zone of the window.
type State struct {
	Open  bool
	Opens time.Time // the next start after that moment; zero: never
	Ends  time.Time // of an open window; zero if further starts keep it open for more than manyStarts
}

// manyStarts limits the number of starts that extend an open window.
const manyStarts = 10

// At returns the state of the window.
func (w *Window) At(now time.Time) State {
	start := w.next(now.Add(-w.duration))
	if start.IsZero() || start.After(now) {
		return State{Opens: start}
	}
	s := State{Open: true, Ends: start.Add(w.duration)}
	for range manyStarts {
		start = w.next(start)
		if !start.IsZero() && start.After(now) && s.Opens.IsZero() {
			s.Opens = start
		}
		if start.IsZero() || start.After(s.Ends) {
			if s.Opens.IsZero() {
				s.Opens = start
			}
			return s
		}
		s.Ends = start.Add(w.duration)
	}
	return State{Open: true}
}

// next returns the first start after a moment, or the zero time. It examines each minute, and skips most of the days that
// do not match.
func (w *Window) next(after time.Time) time.Time {
	for t := after.Truncate(time.Minute).Add(time.Minute); t.Before(after.Add(horizon)); {
		wall := t.In(w.zone)
		if w.starts(wall) {
			return wall
		}
		t = t.Add(time.Minute)
		if left := 21*60 - wall.Hour()*60 - wall.Minute(); left > 0 && !w.cron.matchesDay(wall) { // a change at midnight is not skipped
			t = wall.Add(time.Duration(left) * time.Minute)
		}
	}
	return time.Time{}
}

// starts reports whether the window starts at a full minute.
func (w *Window) starts(wall time.Time) bool {
	changed, _ := wall.ZoneBounds()
	if changed.IsZero() || w.cron.hours == allHours {
		return w.cron.matches(wall)
	}
	_, offset := wall.Zone()
	_, before := changed.Add(-time.Second).In(w.zone).Zone()
	shift := time.Duration(offset-before) * time.Second
	if wall.Before(changed.Add(-shift)) { // the same wall times were before the change
		return false
	}
	if wall.Equal(changed) { // also for the skipped wall times
		skipped := changed.In(time.FixedZone("", before))
		for passed := time.Duration(0); passed < shift; passed += time.Minute {
			if w.cron.matches(skipped.Add(passed)) {
				return true
			}
		}
	}
	return w.cron.matches(wall)
}
