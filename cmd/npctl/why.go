package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// whyDocument is the document that npctl why prints with -json.
type whyDocument struct {
	FormatVersion string `json:"format_version"`
	wire.Why
}

func newWhyCommand(a *app) *cli.Command {
	c := &daemonCommand{app: a}
	return &cli.Command{
		Name: "why", Category: categoryDaemon, Usage: "explain the progress of an object, and what it waits for", ArgsUsage: "SUBJECT",
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
			if err := arguments(cmd, 1); err != nil {
				return err
			}
			return c.with(ctx, func(ctx context.Context, d *client.Client) error {
				why, err := explain(ctx, d, cmd.Args().First())
				if err != nil {
					return err
				}
				if c.json {
					return c.ui.printJSON(whyDocument{jsonVersion, why})
				}
				return writeWhy(c.ui.out, why)
			})
		},
	}
}

// explain queries the explanation of a subject. An ID without its kind may be that of a request or of a node.
func explain(ctx context.Context, d *client.Client, text string) (wire.Why, error) {
	if !isID(text) {
		return d.Why(ctx, subjectOf(text))
	}
	request, err := d.Why(ctx, subjectOf("request/"+text))
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return request, err
	}
	node, nodeErr := d.Why(ctx, subjectOf("node/"+text))
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
	return outputError(err)
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
