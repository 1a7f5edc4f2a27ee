package zookeeper

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// seconds is a time in the format of all programs here: seconds since 1970 as a JSON number with a fraction. Other
// programs read it as a float, which is exact to some hundred nanoseconds; npctl writes and reads all nine digits.
type seconds struct{ time.Time }

// The limits are far beyond real times. Go cannot encode years outside of 0 to 9999 as JSON, so that one such record
// would make every list of records fail.
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

// parseFloat parses the rare forms: negative numbers and exponents.
func parseFloat(text string) (time.Time, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || f > maxSeconds || f < minSeconds {
		return time.Time{}, fmt.Errorf("%.40q is not a time: use a number of seconds", text)
	}
	whole := math.Floor(f)
	return time.Unix(int64(whole), int64((f-whole)*1e9)).UTC(), nil
}

// formatSeconds returns null for the zero time.
func formatSeconds(t time.Time) json.RawMessage {
	switch {
	case t.IsZero():
		return null
	case t.Unix() < 0:
		return json.RawMessage(strconv.FormatFloat(float64(t.UnixMicro())/1e6, 'f', 6, 64))
	}
	fraction := strings.TrimRight(fmt.Sprintf("%09d", t.Nanosecond()), "0")
	fraction = cmp.Or(fraction, "0")
	return json.RawMessage(strconv.FormatInt(t.Unix(), 10) + "." + fraction)
}
