package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Ask prints a question and reads one line, which is empty at the end of the input.
func (u *UI) Ask(ctx context.Context, question string) (string, error) {
	_, _ = fmt.Fprint(u.Err, question)
	line, err := await(ctx, func() (string, error) {
		line, _ := bufio.NewReader(u.In).ReadString('\n') // an error has the effect of the end of the input
		return line, nil
	})
	if answer := strings.TrimSpace(line); answer != "" || strings.HasSuffix(line, "\n") {
		return answer, nil
	}
	u.Message("")
	return "", err
}

// Editor reads lines with editing and a history.
type Editor struct {
	ui   *UI
	in   *os.File
	line *term.Terminal
}

// Editor returns an editor, or nil unless In and Out are terminals.
func (u *UI) Editor(prompt string) *Editor {
	if !u.InTerm || !u.OutTerm {
		return nil
	}
	in, _ := u.In.(*os.File)
	return &Editor{u, in, term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, u.outFile}, prompt)}
}

// ReadLine reads a line in the raw mode of the terminal and restores the mode. The error is io.EOF after ^C or ^D.
func (e *Editor) ReadLine(ctx context.Context) (string, error) {
	mode, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", fmt.Errorf("prepare the terminal: %w", err)
	}
	restore := func() { _ = term.Restore(int(e.in.Fd()), mode) } // nothing else can be done
	defer restore()
	e.ui.OnLeave(restore)
	defer e.ui.OnLeave(nil)
	if columns, rows, err := term.GetSize(int(e.in.Fd())); err == nil && columns > 0 {
		_ = e.line.SetSize(columns, rows) // affects only the layout
	}
	return await(ctx, e.line.ReadLine)
}

// await returns the result of read, or the cause when ctx is done, although read continues until the process ends.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := read()
		answers <- answer{line, err}
	}()
	select {
	case a := <-answers:
		return a.line, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
