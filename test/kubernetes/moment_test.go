//go:build integration

package kubernetes

import (
	"sync"
	"sync/atomic"

	"github.com/npctl/npctl/test/gate"
)

// moment is the call at which a test kills npctl.
type moment struct {
	count   atomic.Int64
	once    sync.Once
	started chan struct{}
}

func (m *moment) ready() chan struct{} {
	m.once.Do(func() { m.started = make(chan struct{}) })
	return m.started
}

// start permits the strike: the process exists.
func (m *moment) start() { close(m.ready()) }

// at returns the hook of a gate that strikes at the changing call of this number.
func (m *moment) at(number int, strike func()) func(string) error {
	started := m.ready()
	return func(call string) error {
		if !gate.Changes(call) || m.count.Add(1) != int64(number) {
			return nil
		}
		<-started
		strike()
		return gate.ErrCut
	}
}
