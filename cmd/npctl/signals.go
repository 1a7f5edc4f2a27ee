package main

import (
	"sync"
	"sync/atomic"
)

// signals holds the effects of signals on the running command.
type signals struct {
	stopped   chan struct{} // closed at the first ^C or SIGTERM
	stopOnce  sync.Once
	interrupt handler // prints the effect of ^C
	hangup    handler // handles SIGHUP, which otherwise has the effect of ^C
}

// interrupted handles ^C.
func (s *signals) interrupted() {
	s.stopOnce.Do(func() { close(s.stopped) })
	s.interrupt.call()
}

// hangupHints returns a channel that receives a hint for each SIGHUP until forget is called. Several signals before the
// next receive produce one hint.
func (s *signals) hangupHints() (hints <-chan struct{}, forget func()) {
	c := make(chan struct{}, 1)
	s.hangup.set(func() {
		select {
		case c <- struct{}{}:
		default:
		}
	})
	return c, func() { s.hangup.set(nil) }
}

// handler is a function that may be replaced while another goroutine calls it.
type handler struct{ do atomic.Pointer[func()] }

// set replaces the function; nil removes it.
func (h *handler) set(do func()) { h.do.Store(&do) }

// call calls the function and reports whether there is one.
func (h *handler) call() bool {
	do := h.do.Load()
	if do == nil || *do == nil {
		return false
	}
	(*do)()
	return true
}
