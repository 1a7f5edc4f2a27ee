package main

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/state"
)

func TestHintsOfLockedStepsFollowTheHolder(t *testing.T) {
	for want, e := range map[string]state.LockedError{
		"npctl watch builds and uploads": {Name: "image debian", Holder: state.Holder{Operation: "watch"}},
		"npctl watch applies":            {Name: "provider rack", Holder: state.Holder{Operation: "watch"}},
		"apply again when it has ended":  {Name: "image debian", Holder: state.Holder{Operation: "apply"}},
	} {
		if got := nextStep(served(&e)); !strings.Contains(got, want) {
			t.Errorf("%+v: hint %q, want %q", e, got, want)
		}
	}
}
