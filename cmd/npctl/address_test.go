package main

import (
	"testing"

	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestAddressHasItsPortUnlessItIsThatOfSSH(t *testing.T) {
	for port, want := range map[int64]string{0: "127.0.0.1", 22: "127.0.0.1", 44383: "127.0.0.1:44383"} {
		n := &resources.Node{Addresses: resources.Addresses{Interface: "127.0.0.1"}, Login: resources.Login{ConnectionPort: port}}
		if got := addressText(n); got != want {
			t.Errorf("port %d: %s, want %s", port, got, want)
		}
	}
	if got := addressText(&resources.Node{Login: resources.Login{ConnectionPort: 44383}}); got != "" {
		t.Errorf("a node without an address has %q", got)
	}
}

func TestProblemsWithHintsNeedNoOther(t *testing.T) {
	for hint, want := range map[string]bool{"": true, "-allow-destroy=all allows it": false} {
		err := problemsError(plan.Plan{Problems: []plan.Problem{{Text: "x", Hint: hint}}}, "correct the configuration")
		if _, has := hints.Of(err); has != want {
			t.Errorf("a problem with the hint %q: the error has a hint: %t", hint, has)
		}
	}
}
