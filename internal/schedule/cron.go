package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cron is an expression with five fields. Each field is a set of bits.
type cron struct {
	minutes, hours, days, months, weekdays uint64
	// eitherDay: both fields of days are restricted, and one of them has to match.
	eitherDay bool
}

// field describes one field of an expression.
type field struct {
	name        string
	first, last int
	words       []string // the names of the values from first on
	circular    bool     // a range may pass the end, such as sat-sun
}

var fields = [5]field{
	{name: "minute", first: 0, last: 59},
	{name: "hour", first: 0, last: 23},
	{name: "day of month", first: 1, last: 31},
	{name: "month", first: 1, last: 12, words: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{name: "day of week", first: 0, last: 7, words: strings.Fields("sun mon tue wed thu fri sat"), circular: true},
}

const allHours = 1<<24 - 1

func parseCron(text string) (c cron, err error) {
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return c, fmt.Errorf("%q has %d fields; write minute, hour, day of month, month and day of week, such as \"0 1 * * mon\"", text, len(parts))
	}
	for i, to := range []*uint64{&c.minutes, &c.hours, &c.days, &c.months, &c.weekdays} {
		for part := range strings.SplitSeq(parts[i], ",") {
			set, err := fields[i].parse(part)
			if err != nil {
				return c, fmt.Errorf("%q: the %s %q %w", text, fields[i].name, part, err)
			}
			*to |= set
		}
	}
	if c.weekdays&(1<<7) != 0 { // 7 is Sunday too
		c.weekdays = c.weekdays&^(1<<7) | 1
	}
	c.eitherDay = parts[2][0] != '*' && parts[4][0] != '*'
	return c, nil
}

// parse reads one element of a list: *, a value or a range, each with an optional step.
func (f *field) parse(part string) (set uint64, err error) {
	values, stepText, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return 0, fmt.Errorf("has no valid step after the slash; write it like \"*/2\"")
		}
	}
	from, to, isRange := strings.Cut(values, "-")
	first, last := f.first, f.last
	if values == "*" {
		if f.circular {
			last-- // 0 and 7 are the same day
		}
	} else {
		if first, err = f.value(from); err != nil {
			return 0, err
		}
		switch {
		case isRange:
			if last, err = f.value(to); err != nil {
				return 0, err
			}
		case !stepped:
			last = first
		}
	}
	if last < first {
		if !f.circular {
			return 0, fmt.Errorf("ends before it starts")
		}
		last += 7
	}
	for n := first; n <= last; n += step {
		if n > f.last {
			set |= 1 << (n - 7)
		} else {
			set |= 1 << n
		}
	}
	return set, nil
}

func (f *field) value(text string) (int, error) {
	for i, word := range f.words {
		if strings.EqualFold(text, word) {
			return f.first + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.first || n > f.last {
		return 0, fmt.Errorf("is not from %d to %d", f.first, f.last)
	}
	return n, nil
}

// matches reports whether a wall time has all fields.
func (c *cron) matches(wall time.Time) bool {
	return has(c.minutes, wall.Minute()) && has(c.hours, wall.Hour()) && c.matchesDay(wall)
}

func (c *cron) matchesDay(wall time.Time) bool {
	if !has(c.months, int(wall.Month())) {
		return false
	}
	day, weekday := has(c.days, wall.Day()), has(c.weekdays, int(wall.Weekday()))
	if c.eitherDay {
		return day || weekday
	}
	return day && weekday
}

func has(set uint64, n int) bool { return set&(1<<n) != 0 }
