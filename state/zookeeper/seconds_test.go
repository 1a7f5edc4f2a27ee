package zookeeper

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimesAreFractionalSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"null":                     {},
		"0":                        time.Unix(0, 0).UTC(),
		"1795204849":               time.Unix(1795204849, 0).UTC(),
		"1795204849.55":            time.Unix(1795204849, 550_000_000).UTC(),
		"1795204849.123456789":     time.Unix(1795204849, 123_456_789).UTC(),
		"1795204849.1234567891234": time.Unix(1795204849, 123_456_789).UTC(),
		"1.5e3":                    time.Unix(1500, 0).UTC(),
		"-1.5":                     time.Unix(-2, 500_000_000).UTC(),
		"-0.25":                    time.Unix(-1, 750_000_000).UTC(),
	} {
		var got seconds
		if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v; want %v", text, got.Time, err, want)
		}
	}
}

func TestInvalidTimesAreRejected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"1795204849"`, "true", "[]", "{}", "1e300", "-1e300", "1795204849000", "1099511627776", "-99999999999"} {
		var got seconds
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s was read as %v", text, got.Time)
		}
	}
}

func TestTimesRoundTripToTheNanosecond(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		want := time.Unix(rapid.Int64Range(0, maxSeconds-1).Draw(r, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(r, "nanos")).UTC()
		text := formatSeconds(want)
		var got seconds
		if err := json.Unmarshal(text, &got); err != nil || !got.Equal(want) {
			r.Fatalf("%v was written as %s and read as %v, %v", want, text, got.Time, err)
		}
		if _, err := json.Marshal(got.Add(maxHold * time.Second)); err != nil {
			r.Fatalf("%v has no JSON: %v", got.Time, err)
		}
	})
}

func TestAnyNumberIsDecodedOrRejected(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var got seconds
		if json.Unmarshal([]byte(rapid.StringMatching(`-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,3})?`).Draw(r, "number")), &got) != nil {
			return
		}
		if _, err := json.Marshal(got.Time); err != nil {
			r.Fatalf("%v has no JSON: %v", got.Time, err)
		}
	})
}
