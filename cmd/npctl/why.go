package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
)

func newWhyCommand(a *app) *cli.Command {
	c := &daemonCommand{app: a}
	return &cli.Command{
		Name: "why", Category: categoryDaemon, Usage: "explain the progress of an object, and what it waits for", ArgsUsage: "SUBJECT", Metadata: takes(single(subjects)),
		Description: `Explains a node, request, label, image or provider: its progress, its blockers, planned steps that have not started,
and its recent events.

Examples:
  npctl why request/17
  npctl why node/0000000042
  npctl why label/debian
  npctl why diskimage.debian
  npctl why provider.vexxhost
  npctl why 0000000042       (the request or the node with this id)

Exit codes: 0, or 1 on an error or when it does not exist.` + daemonHelp,
		Flags: c.flags(),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.NArg() == 0 {
				return hint(errors.New("npctl why needs an object to explain"), "name it as node/ID, request/ID, label/NAME, image/NAME or provider/NAME")
			}
			subject := cmd.Args().First()
			why, err := fetch(ctx, c, func(ctx context.Context, d *client.Client) (wire.Why, error) {
				return explain(subject, func(subject string) (wire.Why, error) { return d.Why(ctx, subject) })
			}, c.storedFleet, func(w imageState) (wire.Why, error) {
				c.warnConfigError(w)
				return explain(subject, w.why)
			})
			switch {
			case err != nil:
				return err
			case c.json:
				return c.printDocument(why)
			}
			return writeWhy(c.ui.Out, why)
		},
	}
}

// eventsOfWhy is the maximum number of events in an explanation of the stored state.
const eventsOfWhy = 50

// why explains a subject from the stored state.
func (w imageState) why(subject string) (wire.Why, error) {
	if !inspect.IsSubject(subject) {
		return wire.Why{}, hint(fmt.Errorf("%q is not a subject", subject), "name it as node/ID, request/ID, label/NAME, image/NAME or provider/NAME")
	}
	why, err := inspect.Why(subject, inspect.WhyInput{Fleet: w.Fleet, Events: w.events(subject, eventsOfWhy), Now: time.Now(),
		Plan: plan.Compute(w.Desired, w.Observed, plan.Options{NoRefresh: true, HonorBackoff: true, Explain: true})})
	if none, ok := errors.AsType[*inspect.NotFoundError](err); ok {
		err = didYouMean(fmt.Errorf("%w: %w", state.ErrNotFound, err), none.Name, none.Known, none.Hint)
	}
	return why, err
}

// explain returns the explanation of a subject. An ID without its kind may be that of a request or of a node.
func explain(text string, why func(subject string) (wire.Why, error)) (wire.Why, error) {
	if !isID(text) {
		return why(subjectOf(text))
	}
	request, err := why(subjectOf("request/" + text))
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return request, err
	}
	node, nodeErr := why(subjectOf("node/" + text))
	switch {
	case nodeErr != nil && !errors.Is(nodeErr, state.ErrNotFound):
		return node, nodeErr
	case err == nil && nodeErr == nil:
		return wire.Why{}, hint(fmt.Errorf("%s is the id of a request and of a node", text),
			fmt.Sprintf("npctl why %s, or npctl why %s", request.Subject, node.Subject))
	case err == nil:
		return request, nil
	case nodeErr == nil:
		return node, nil
	default:
		return wire.Why{}, hint(fmt.Errorf("there is no request and no node %q", idOf("", text)), "npctl request list and npctl node list show the ids")
	}
}

// writeWhy prints an explanation, the most important facts first.
func writeWhy(out io.Writer, w wire.Why) error {
	var b strings.Builder
	head := w.Subject
	if w.State != "" {
		head += ": " + w.State
	}
	fmt.Fprintf(&b, "%s\n%s\n", visibleLine(head), visibleLine(w.Summary))
	if len(w.Waits) > 0 {
		b.WriteString("\nIt waits for\n")
		for _, one := range w.Waits {
			fmt.Fprintf(&b, "  - %s\n", oneLine(one.Text, 500))
		}
	}
	whySteps(&b, "\nBeing done\n", w.Running)
	whySteps(&b, "\nDecided\n", w.Planned)
	if len(w.Facts) > 0 {
		b.WriteString("\nKnown\n")
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, f := range w.Facts {
			_, _ = fmt.Fprintf(table, "  %s\t%s\n", f.Name, oneLine(f.Value, 500)) // Flush returns its error
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if len(w.Events) > 0 {
		b.WriteString("\nSo far\n")
		for _, e := range w.Events {
			b.WriteString("  " + eventLineText(e) + "\n")
		}
	}
	if len(w.Related) > 0 {
		fmt.Fprintf(&b, "\nSee also: npctl why %s\n", visibleLine(strings.Join(w.Related, ", ")))
	}
	_, err := io.WriteString(out, visible(b.String()))
	return terminal.OutputError(err)
}

// whySteps lists steps. It limits their number.
func whySteps(b *strings.Builder, title string, steps []wire.Step) {
	if len(steps) == 0 {
		return
	}
	const shown = 10
	b.WriteString(title)
	for i, s := range steps {
		if i == shown {
			fmt.Fprintf(b, "  ... and %d more\n", len(steps)-shown)
			return
		}
		fmt.Fprintf(b, "  - %s %s: %s\n", s.Action, s.Address, s.Text)
	}
}
