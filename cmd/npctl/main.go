// Command npctl plans and executes the changes that a fleet of CI test nodes and their images needs. It is the only
// package that imports every concrete driver, builder and store; see registry.go.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

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
