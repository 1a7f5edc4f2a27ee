package terminal

import (
	"errors"
	"strings"
	"testing"
)

func TestWarningsEndWithTheirCause(t *testing.T) {
	var out strings.Builder
	log := New(Streams{Err: &out}, func(string) (string, bool) { return "", false }).Warnings()
	log.Warn("instance is left alone", "provider", "acme", "error", errors.New("403\x1b[0m"), "instance", "i-1")
	log.Warn("instance is left alone", "error", errors.New("one\ntwo"))
	if want := "Warning: instance is left alone (provider acme, instance i-1): 403\\x1b[0m\nWarning: instance is left alone\n    one\n    two\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
