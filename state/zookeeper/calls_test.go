package zookeeper

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
)

func TestCallWithoutAnswerHasUnknownOutcome(t *testing.T) {
	for _, err := range []error{zk.ErrConnectionClosed, zk.ErrSessionExpired, &net.OpError{Op: "write", Err: syscall.EPIPE}} {
		if got := wrapCall("read /a", err); !errors.Is(got, errOutcomeUnknown) || !errors.Is(got, err) {
			t.Errorf("%v: got %v, want an error of unknown outcome", err, got)
		}
	}
	if got := wrapCall("read /a", zk.ErrNoNode); errors.Is(got, errOutcomeUnknown) {
		t.Errorf("an answer of the server: got %v", got)
	}
}
