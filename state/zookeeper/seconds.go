package zookeeper

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// seconds is a time as everybody here writes it: seconds since 1970 as a JSON number with a fraction. Others read it as a
// float, which is good for some hundred nanoseconds; we write and read all nine digits.
type seconds struct{ time.Time }

// Far beyond what anybody means. Years outside of 0 to 9999 have no JSON in Go, so that one such record would be in the
// way of a list of all.
const (
	maxSeconds = 200_000_000_000 // in the year 8307
	minSeconds = -60_000_000_000 // in the year 68
)

// UnmarshalJSON implements json.Unmarshaler; null is the zero time.
func (s *seconds) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		s.Time = time.Time{}
		return nil
	}
	t, err := parseSeconds(string(text))
	s.Time = t
	return err
}

func parseSeconds(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n < 0 || strings.HasPrefix(whole, "-") || strings.ContainsAny(fraction, "eE") {
		return parseFloat(text)
	}
	if n > maxSeconds {
		return time.Time{}, fmt.Errorf("time %s is out of range", text)
	}
	fraction = (fraction + "000000000")[:9]
	nanos, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("time %s: %w", text, err)
	}
	return time.Unix(n, nanos).UTC(), nil
}

// parseFloat reads the forms that are rare: negative ones and those with an exponent.
func parseFloat(text string) (time.Time, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || f > maxSeconds || f < minSeconds {
		return time.Time{}, fmt.Errorf("%.40q is no time: a number of seconds is", text)
	}
	whole := math.Floor(f)
	return time.Unix(int64(whole), int64((f-whole)*1e9)).UTC(), nil
}

// formatSeconds is null for the zero time.
func formatSeconds(t time.Time) json.RawMessage {
	switch {
	case t.IsZero():
		return null
	case t.Unix() < 0:
		return json.RawMessage(strconv.FormatFloat(float64(t.UnixMicro())/1e6, 'f', 6, 64))
	}
	fraction := strings.TrimRight(fmt.Sprintf("%09d", t.Nanosecond()), "0")
	if fraction == "" {
		fraction = "0"
	}
	return json.RawMessage(strconv.FormatInt(t.Unix(), 10) + "." + fraction)
}
