package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

const imageLogDescription = `Prints the log of the newest build of an image, also of a failed or running one. With -f it follows
the log until the build ends; ^C ends it earlier and does not affect the build.

Logs are on the build host; build_log_retention limits their number per image. On a terminal control
characters are made visible; a file or a pipe receives the unchanged log.

Examples:
  npctl image log debian
  npctl image log debian -f -n=20
  npctl image log debian -build=4f1c0a | grep -n error
  npctl image log -json debian | jq -r 'select(.type == "line") | .text'

Exit codes: 0, 1 on an error or when there is no log, 130 interrupted.`

// imageLogCommand implements npctl image log.
type imageLogCommand struct {
	imageCommand
	build  string
	follow bool
	lines  int
	every  time.Duration // poll interval of a growing log
}

func newImageLogCommand(a *app) *cli.Command {
	c := &imageLogCommand{imageCommand: imageCommand{app: a}, every: 500 * time.Millisecond}
	return &cli.Command{
		Name: "log", Usage: "print the log of a build", ArgsUsage: "NAME", Description: imageLogDescription, Metadata: events(imageNames),
		Flags: append([]cli.Flag{
			&stringFlag{cli.StringFlag{Name: "build", Destination: &c.build, Usage: "of the build with this `ID` instead of the newest"}, records(resources.KindBuild)},
			&cli.BoolFlag{Name: "f", Aliases: []string{"follow"}, Destination: &c.follow, Usage: "follow the log until the build ends"},
			&cli.IntFlag{Name: "n", Aliases: []string{"lines"}, Destination: &c.lines, Value: -1, DefaultText: "all", Usage: "start with the last `LINES` lines"},
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print JSON, one object a line (see docs/json.md)"},
		}, c.flags()...), Action: c.run,
	}
}

func (c *imageLogCommand) run(ctx context.Context, cmd *cli.Command) error {
	err := c.print(ctx, cmd)
	if err != nil && c.json {
		_ = c.printJSONLine(logEvent{Type: "error", Message: err.Error(), Hint: nextStep(err)}) // in addition to the return value
	}
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errSignal) {
		return exitCode(exitInterrupted)
	}
	return err
}

func (c *imageLogCommand) print(ctx context.Context, cmd *cli.Command) error {
	name, err := oneImage(cmd)
	if err != nil {
		return err
	}
	s, err := c.loadSession(ctx, c.variableOptions, 0, readState)
	if err != nil {
		return err
	}
	defer s.close()
	w := imageState{}
	w.Desired = s.config.Desired
	if err := w.read(ctx, s.store, namesOnly); err != nil {
		return err
	}
	found, err := c.find(w.ImageInput, name)
	if err != nil {
		return err
	}
	sink := c.sink()
	if c.json {
		err = c.printJSONLine(logEvent{Type: "start", FormatVersion: jsonVersion, Image: found.image, Build: found.build, State: found.state, Path: found.path})
		if err != nil {
			return err
		}
	}
	follower := logFollower{path: found.path, every: c.every, to: sink, ended: func(context.Context) (bool, error) { return true, nil }}
	if c.follow {
		follower.ended = (&buildWatch{store: s.store, build: found.build}).ended
	}
	if err := follower.run(ctx, c.lines); err != nil {
		return err
	}
	return c.end(ctx, s.store, found)
}

// sink returns the writer for the log.
func (c *imageLogCommand) sink() io.WriteCloser {
	switch {
	case c.json:
		return &lineWriter{line: func(text string) error { return c.printJSONLine(logEvent{Type: "line", Text: &text}) }}
	case c.ui.OutTerm:
		return &lineWriter{line: func(text string) error { return c.ui.Print("%s", visible(strings.ReplaceAll(text, "\r", "\n"))) }}
	default:
		return plainWriter{c.ui.Out}
	}
}

// foundLog is the log of a build.
type foundLog struct {
	image, build, path string
	state              resources.State // empty if the build has no record
	time               time.Time
}

// find selects the log to print: that of the build in -build, or the newest.
func (c *imageLogCommand) find(w inspect.ImageInput, name string) (foundLog, error) {
	dir := w.Desired.Settings.LogPath()
	logs, err := logsIn(dir)
	if err != nil {
		return foundLog{}, err
	}
	image, unknown := name, error(nil)
	if ref, err := findImage(w.Refs(), name); err == nil {
		image = ref.Name
	} else {
		unknown = err
	}
	all := logsOf(image, dir, logs, w.Observed.Records)
	if len(all) == 0 && unknown != nil {
		return foundLog{}, unknown
	}
	meant := keepOf(all, func(l foundLog) bool {
		return c.build == "" || c.build == newestWord || l.build == c.build || len(c.build) >= leastPrefix && strings.HasPrefix(l.build, c.build)
	})
	switch {
	case len(meant) == 0 && c.build != "":
		return foundLog{}, hint(fmt.Errorf("image %s has no build %q with a log", image, c.build), "its builds are in npctl image show "+image+"; old logs are deleted, see build_log_retention")
	case len(meant) == 0:
		return foundLog{}, hint(fmt.Errorf("image %s has never been built here", image), "npctl image build "+image+" builds it; logs are in "+dir+" of the host that builds")
	case c.build != "" && c.build != newestWord && len(meant) > 1:
		return foundLog{}, hint(fmt.Errorf("several builds of %s begin with %q", image, c.build), "use more characters of the id; npctl image show "+image+" shows them whole")
	}
	newest := meant[0]
	if newest.state != resources.StateBuilding && !exists(newest.path) {
		return foundLog{}, hint(fmt.Errorf("the log of build %s is not here", newest.build), elsewhereHint(w.Observed.Records, newest))
	}
	return newest, nil
}

func elsewhereHint(r plan.Records, l foundLog) string {
	for _, b := range r.Builds {
		if b.ID == l.build && b.Host != "" {
			return fmt.Sprintf("it was built on %s; old logs are deleted, see build_log_retention", b.Host)
		}
	}
	return "old logs are deleted, see build_log_retention"
}

// logsIn lists a log directory, which need not exist.
func logsIn(dir string) ([]os.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	return entries, nil
}

// logsOf lists the logs of an image, newest first: those of recorded builds, and log files of builds without a record.
func logsOf(image, dir string, entries []os.DirEntry, r plan.Records) []foundLog {
	var logs []foundLog
	for _, b := range inspect.BuildsOf(r, image) {
		logs = append(logs, foundLog{image, b.ID, buildLogPath(dir, image, b.ID), b.State, b.Created})
	}
	for _, entry := range entries {
		id := plan.BuildIDOfFile(entry.Name())
		if id == "" || entry.Name() != image+"-"+id+".log" || slices.ContainsFunc(logs, func(l foundLog) bool { return l.build == id }) {
			continue
		}
		if info, err := entry.Info(); err == nil {
			logs = append(logs, foundLog{image, id, buildLogPath(dir, image, id), "", info.ModTime()})
		}
	}
	slices.SortStableFunc(logs, func(a, b foundLog) int {
		return cmp.Or(b.time.Compare(a.time), cmp.Compare(a.build, b.build))
	})
	return logs
}

// end reports the result of a build that was followed.
func (c *imageLogCommand) end(ctx context.Context, store stateStore, l foundLog) error {
	if !c.follow && !c.json {
		return nil
	}
	became, why := buildOutcome(ctx, store, l)
	if c.json {
		return c.printJSONLine(logEvent{Type: "end", State: became, Message: why})
	}
	text := fmt.Sprintf("Build %s of %s", short(l.build), l.image)
	switch became {
	case resources.StateReady:
		text += " is ready."
	case resources.StateFailed:
		text += " failed: " + sentence(headline(why))
	case resources.StateBuilding:
		text += " was interrupted. The next apply removes it."
	default:
		text += " is gone."
	}
	c.ui.Message("%s", visible(text))
	return nil
}
