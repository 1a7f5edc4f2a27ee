// Command npctl plans and executes the changes that a fleet of CI test nodes and their images needs. It is the only
// package that imports every concrete driver, builder and store; see registry.go.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	_ "time/tzdata" // windows of disruption budgets must not depend on the time zones of the host

	_ "github.com/npctl/npctl/internal/startup"
	"github.com/npctl/npctl/internal/terminal"
)

// exitInterrupted is the exit code after an interrupt; shells use the same.
const exitInterrupted = 130

// errSignal is the cause with which SIGINT and SIGTERM cancel the context of a command.
var errSignal = errors.New("interrupted")

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, interrupt := context.WithCancelCause(context.Background())
	a := newApp(terminal.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.LookupEnv)
	done := make(chan int, 1)
	go func() { done <- a.run(ctx, os.Args) }()
	for asked := false; ; {
		select {
		case code := <-done:
			os.Exit(code)
		case got := <-signals:
			switch {
			case got == syscall.SIGHUP && a.signals.hangup.Call():
				continue
			case asked:
				a.ui.Leave()
				os.Exit(exitInterrupted)
			}
			asked = true
			a.signals.interrupted()
			interrupt(errSignal)
		}
	}
}

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
