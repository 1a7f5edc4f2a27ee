// Command npctl shows what a fleet of CI test nodes and their images needs, and does it. It is the only package that
// knows every concrete driver, builder and store; see registry.go.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// exitInterrupted is the exit code after ^C, as shells use it.
const exitInterrupted = 130

// errSignal is why the context of a command ends when somebody presses ^C or stops the process.
var errSignal = errors.New("interrupted")

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, interrupt := context.WithCancelCause(context.Background())
	a := newApp(systemStreams(), os.LookupEnv)
	done := make(chan int, 1)
	go func() { done <- a.run(ctx, os.Args) }()
	for asked := false; ; {
		select {
		case code := <-done:
			os.Exit(code)
		case got := <-signals:
			switch {
			case got == syscall.SIGHUP && a.ui.hungUp():
				continue
			case asked:
				a.ui.leave()
				os.Exit(exitInterrupted)
			}
			asked = true
			a.ui.interrupted()
			interrupt(errSignal)
		}
	}
}
