package main

import "github.com/npctl/npctl/internal/terminal"

// signals holds the effects of signals on the running command.
type signals struct {
	stopped   chan struct{}    // closed at the first ^C or SIGTERM
	interrupt terminal.Handler // prints the effect of ^C
	hangup    terminal.Handler // handles SIGHUP, which otherwise has the effect of ^C
}

// interrupted handles the first ^C.
func (s *signals) interrupted() {
	close(s.stopped)
	s.interrupt.Call()
}

// hangupHints returns a channel that receives a hint for each SIGHUP until forget is called. Several signals before the
// next receive produce one hint.
func (s *signals) hangupHints() (hints <-chan struct{}, forget func()) {
	c := make(chan struct{}, 1)
	s.hangup.Set(func() {
		select {
		case c <- struct{}{}:
		default:
		}
	})
	return c, func() { s.hangup.Set(nil) }
}
