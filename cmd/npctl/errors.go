package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// hint adds a hint to an error.
func hint(err error, next string) error { return hints.Add(err, next) }

// didYouMean adds a hint to an error about an unknown word: the most similar known word, or otherwise.
func didYouMean(err error, word string, words []string, otherwise string) error {
	if near := text.Nearest(word, words); near != "" {
		return hint(err, fmt.Sprintf("did you mean %q?", near))
	}
	return hint(err, otherwise)
}

// exitCode ends a command that has already reported its error.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// diagnosed is an error that holds the diagnostics of a configuration.
type diagnosed struct {
	diags hcl.Diagnostics
	files map[string]*hcl.File
}

func (d *diagnosed) Error() string { return d.diags.Error() }

// Report returns the text that npctl validate prints, for clients of npctl watch.
func (d *diagnosed) Report() string {
	var b strings.Builder
	config.WriteDiagnostics(&b, d.diags, d.files, false, reportWidth)
	return b.String()
}

// reportWidth is the width of a report in columns. The terminal of the reader is not known when the report is written.
const reportWidth = 100

// report prints the error of a command and returns the exit code. No other function does either.
func (a *app) report(ctx context.Context, err error) int {
	var code exitCode
	var diags *diagnosed
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &diags):
		a.diagnostics(diags)
		return 1
	case errors.Is(context.Cause(ctx), errSignal) && (errors.Is(err, context.Canceled) || errors.Is(err, errSignal)):
		a.ui.Message("Interrupted. No step was running.")
		return exitInterrupted
	}
	a.failure(err)
	return 1
}

// failure prints an error and its hint.
func (a *app) failure(err error) {
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Report != "" {
		a.ui.Message("%s", visible(refusal.Report))
		err = hint(errors.New("npctl watch refused the new configuration"), refusal.Hint)
	}
	a.ui.Error("Error:", "%s", visible(sentence(err.Error())))
	if next := nextStep(err); next != "" {
		a.ui.Message("%s %s", a.ui.Style(terminal.StyleStrong, "Hint:"), visible(next))
	}
}

// confirm asks a question and returns nil if the answer is yes. without is the hint if there is no terminal.
func (a *app) confirm(ctx context.Context, question, without string) error {
	if !a.ui.InTerm {
		return hint(errors.New("stdin is not a terminal: cannot ask for approval; no changes were made"), without)
	}
	answer, err := a.ui.Ask(ctx, question+"\n  Only 'yes' will be accepted: ")
	if err == nil && answer != "yes" {
		a.ui.Message("Not approved; no changes were made.")
		return exitCode(1)
	}
	return err
}

// nextStep returns the hint for an error, or "".
func nextStep(err error) string {
	own, has := hints.Of(err)
	var locked *state.LockedError
	var refusal *client.Error
	switch {
	case has:
		return own
	case errors.As(err, &refusal) && refusal.Hint != "":
		return refusal.Hint
	case errors.As(err, &locked) && strings.HasPrefix(locked.Holder.Operation, "watch"):
		return "npctl status shows its steps; wait for them, for example with -lock-timeout=5m, or stop npctl watch"
	case errors.As(err, &locked):
		return fmt.Sprintf("wait for it, for example with -lock-timeout=5m; if %s (process %d on %s) is certainly dead: npctl force-unlock %s",
			locked.Holder.Operation, locked.Holder.PID, locked.Holder.Host, locked.Holder.ID)
	case errors.Is(err, state.ErrLost):
		return "another process took the lock; review npctl plan before you apply again"
	case errors.Is(err, planfile.ErrNotPlanFile), errors.Is(err, planfile.ErrDamaged), errors.Is(err, planfile.ErrFormat):
		return "create a new plan with npctl plan -out=FILE"
	case errors.Is(err, drivers.ErrThrottled):
		return "the cloud limits the rate of calls: wait, or set rate in the provider block"
	default:
		return ""
	}
}

// sentence ends an error text with a full stop.
func sentence(text string) string {
	text = strings.TrimRight(text, "\n ")
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// diagnostics prints the diagnostics of a configuration with their source lines.
func (a *app) diagnostics(d *diagnosed) {
	write := config.WriteDiagnostics
	if a.ui.Compact {
		write = config.WriteCompact
	}
	write(a.ui.Err, d.diags, d.files, a.ui.ErrColor, a.ui.ErrWidth())
}

// visible escapes control characters in text from outside, so that it cannot control the terminal. It keeps line
// breaks.
func visible(block string) string { return text.Block(block) }

// visibleLine is visible for values in a table or a sentence. It escapes line breaks too, so that a value cannot add
// lines.
func visibleLine(value string) string { return text.Line(value) }

// failure is the document that commands with -json print in place of their own when they fail; see docs/json.md.
type failure struct {
	FormatVersion string                  `json:"format_version"`
	Errored       bool                    `json:"errored"`
	Error         *errorWords             `json:"error,omitempty"`
	Diagnostics   []config.JSONDiagnostic `json:"diagnostics,omitempty"`
}

// errorWords is an error and its hint.
type errorWords struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func failureDocument(err error) failure {
	f := failure{FormatVersion: jsonVersion, Errored: true}
	var diags *diagnosed
	if errors.As(err, &diags) {
		f.Diagnostics = config.JSON(diags.diags, diags.files).Diagnostics
		return f
	}
	f.Error = &errorWords{Message: err.Error(), Hint: nextStep(err)}
	return f
}
