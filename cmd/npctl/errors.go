package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// hinted is an error with a next step for people.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// hint adds a next step to an error.
func hint(err error, next string) error { return &hinted{err, next} }

// didYouMean adds which of the words was probably meant to an error about one that does not exist, or else another next step.
func didYouMean(err error, word string, words []string, otherwise string) error {
	if near := text.Nearest(word, words); near != "" {
		return hint(err, fmt.Sprintf("did you mean %q?", near))
	}
	return hint(err, otherwise)
}

// exitCode ends a command whose story is told already.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// diagnosed is the mistakes of a configuration.
type diagnosed struct {
	diags hcl.Diagnostics
	files map[string]*hcl.File
}

func (d *diagnosed) Error() string { return d.diags.Error() }

// Report is the text that npctl validate prints, for clients of npctl watch.
func (d *diagnosed) Report() string {
	var b strings.Builder
	config.WriteDiagnostics(&b, d.diags, d.files, false, reportWidth)
	return b.String()
}

// reportWidth is the width of a report, which is written before the width of the reader's terminal is known.
const reportWidth = 100

// report prints why a command failed and returns the exit code. This is the one place that does either.
func (u *ui) report(ctx context.Context, err error) int {
	var code exitCode
	var diags *diagnosed
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &diags):
		u.diagnostics(diags)
		return 1
	case errors.Is(context.Cause(ctx), errSignal) && (errors.Is(err, context.Canceled) || errors.Is(err, errSignal)):
		u.talk("Interrupted. Nothing was left half done.")
		return exitInterrupted
	}
	u.failure(err)
	return 1
}

// failure prints an error and the next step.
func (u *ui) failure(err error) {
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Report != "" {
		u.talk("%s", visible(refusal.Report))
		err = hint(errors.New("npctl watch refused the new configuration"), refusal.Hint)
	}
	u.talk("%s %s", u.style(styleError, "Error:"), visible(sentence(err.Error())))
	if next := nextStep(err); next != "" {
		u.talk("%s %s", u.style(styleStrong, "Hint:"), visible(next))
	}
}

// nextStep is what people can do about an error.
func nextStep(err error) string {
	var own *hinted
	var locked *state.LockedError
	var refusal *client.Error
	switch {
	case errors.As(err, &own):
		return own.hint
	case errors.As(err, &refusal) && refusal.Hint != "":
		return refusal.Hint
	case errors.As(err, &locked) && strings.HasPrefix(locked.Holder.Operation, "watch"):
		return "npctl status shows what it is doing; wait until that is done, with -lock-timeout=5m if you like, or stop npctl watch"
	case errors.As(err, &locked):
		return fmt.Sprintf("wait until it is done, with -lock-timeout=5m if you like; when %s (process %d on %s) is surely dead: npctl force-unlock %s",
			locked.Holder.Operation, locked.Holder.PID, locked.Holder.Host, locked.Holder.ID)
	case errors.Is(err, state.ErrLost):
		return "somebody else took the lock; look at npctl plan before you apply again"
	case errors.Is(err, plan.ErrNotPlanFile), errors.Is(err, plan.ErrPlanDamaged), errors.Is(err, plan.ErrPlanFormat):
		return "make a new one with npctl plan -out=FILE"
	case errors.Is(err, drivers.ErrThrottled):
		return "the cloud wants fewer calls: wait, or set rate in the provider block"
	default:
		return ""
	}
}

// sentence ends an error the way a person would.
func sentence(text string) string {
	text = strings.TrimRight(text, "\n ")
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// diagnostics shows the mistakes of a configuration with their source lines.
func (u *ui) diagnostics(d *diagnosed) {
	write := config.WriteDiagnostics
	if u.compact {
		write = config.WriteCompact
	}
	write(u.err, d.diags, d.files, u.errColor, u.errWidth())
}

// visible keeps names and errors from elsewhere from driving the terminal. Line breaks stay.
func visible(block string) string { return text.Block(block) }

// countWord is a number with what agrees with it.
func countWord(n int, one, more string) string { return text.Count(n, one, more) }

// visibleLine is visible for what stands in a table or a sentence: line breaks are escaped too, so that no value makes
// lines of its own.
func visibleLine(value string) string { return text.Line(value) }
