package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/syntax"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
)

const testDescription = `Runs the tests of a configuration: the run blocks in files that end with .test.hcl. Each run
computes or applies a plan and checks conditions on the result. The files come from the arguments, or
from the directory of the configuration and its subdirectory tests.

A test replaces every provider by a cloud in memory and every builder by a placeholder that writes
small files, and it keeps its state in a temporary directory. It connects to no cloud, runs no program,
and neither reads nor changes the state of the configuration. docs/testing.md describes the files.

Examples:
  npctl test
  npctl test -filter=quota tests/limits.test.hcl
  npctl test -json | jq -r '.files[].runs[] | select(.status != "pass") | .name'

Exit codes: 0 all runs have passed, 1 a run has failed or a file has errors, 130 interrupted.`

// runTimeout limits the time of one run.
const runTimeout = 10 * time.Minute

// testCommand implements npctl test.
type testCommand struct {
	*app
	variables variableOptions
	filter    string
	json      bool
}

func newTestCommand(a *app) *cli.Command {
	c := &testCommand{app: a}
	return &cli.Command{
		Name: "test", Category: categoryMain, Usage: "run the tests of a configuration", ArgsUsage: "[DIR|FILE]...", Description: testDescription,
		Flags: append(c.variables.flags(), a.compactFlag(),
			&cli.StringFlag{Name: "filter", Category: categoryGeneral, Destination: &c.filter, Usage: "run only tests with this `TEXT` in their name"},
			&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print one JSON document (see docs/json.md)"}),
		Action: c.run,
	}
}

// testStatus is the result of a run.
type testStatus string

const (
	testPass  testStatus = "pass"
	testFail  testStatus = "fail"  // a condition is false
	testError testStatus = "error" // the run itself failed
	testSkip  testStatus = "skip"  // not run, because an earlier run of the file failed, or because of -filter
)

// testReport is the document of npctl test -json.
type testReport struct {
	Status  testStatus     `json:"status"` // pass or fail
	Summary map[string]int `json:"summary"`
	Files   []testedFile   `json:"files"`
}

type testedFile struct {
	Path        string                  `json:"path"`
	Diagnostics []config.JSONDiagnostic `json:"diagnostics,omitempty"` // errors in the file
	Runs        []testedRun             `json:"runs"`
}

type testedRun struct {
	Name        string                  `json:"name"`
	Status      testStatus              `json:"status"`
	Line        int                     `json:"line"`
	Seconds     float64                 `json:"seconds,omitempty"`
	Plan        string                  `json:"plan,omitempty"` // the summary of the plan
	Diagnostics []config.JSONDiagnostic `json:"diagnostics,omitempty"`
	Error       string                  `json:"error,omitempty"`

	failure error // for the terminal
}

func (c *testCommand) run(ctx context.Context, cmd *cli.Command) error {
	paths, err := c.files(cmd.Args().Slice())
	if err != nil {
		return err
	}
	report := testReport{Status: testPass, Files: []testedFile{},
		Summary: map[string]int{string(testPass): 0, string(testFail): 0, string(testError): 0, string(testSkip): 0}}
	for _, path := range paths {
		file, err := c.test(ctx, path)
		if err != nil {
			return err
		}
		report.Files = append(report.Files, file)
		if len(file.Diagnostics) > 0 {
			report.Status = testFail
			report.Summary[string(testError)]++
		}
		for _, run := range file.Runs {
			report.Summary[string(run.Status)]++
			if run.Status == testFail || run.Status == testError {
				report.Status = testFail
			}
		}
	}
	if s := report.Summary; c.filter != "" && s["skip"] > 0 && s["pass"]+s["fail"]+s["error"] == 0 && ctx.Err() == nil {
		return hint(fmt.Errorf("no run has %q in its name", c.filter), "omit -filter to execute all runs")
	}
	if err := c.print(report); err != nil {
		return err
	}
	switch {
	case errors.Is(context.Cause(ctx), errSignal):
		return exitCode(exitInterrupted)
	case report.Status != testPass:
		return exitCode(1)
	}
	return nil
}

func (c *testCommand) print(report testReport) error {
	if c.json {
		return c.printDocument(report)
	}
	s := report.Summary
	line := fmt.Sprintf("%d passed, %d failed", s["pass"], s["fail"]+s["error"])
	if s["skip"] > 0 {
		line += fmt.Sprintf(", %d skipped", s["skip"])
	}
	return c.ui.Print("%s.", line)
}

// files lists the files with tests.
func (c *testCommand) files(arguments []string) ([]string, error) {
	if len(arguments) == 0 {
		dir := c.global.config
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			dir = filepath.Dir(dir)
		}
		arguments = []string{dir}
	}
	var paths []string
	for _, argument := range arguments {
		info, err := os.Stat(argument)
		switch {
		case err != nil:
			return nil, hint(fmt.Errorf("find tests: %w", err), "name a directory, or a file that ends with "+syntax.TestSuffix)
		case info.IsDir():
			found, err := config.FindTests(argument)
			if err != nil {
				return nil, fmt.Errorf("find tests: %w", err)
			}
			if len(found) == 0 {
				return nil, hint(fmt.Errorf("there are no tests in %s", argument), "write run blocks into a file that ends with "+syntax.TestSuffix)
			}
			paths = append(paths, found...)
		case !config.IsTest(argument):
			return nil, hint(fmt.Errorf("%s is not a file with tests", argument), "the name of a file with tests ends with "+syntax.TestSuffix)
		default:
			paths = append(paths, argument)
		}
	}
	return paths, nil
}

// test runs the tests of one file.
func (c *testCommand) test(ctx context.Context, path string) (testedFile, error) {
	tested := testedFile{Path: path, Runs: []testedRun{}}
	file, diags := config.ReadTests(path, c.signals.stopped)
	if diags.HasErrors() {
		tested.Diagnostics = config.JSON(diags, file.Files).Diagnostics
		err := c.line("%s", visibleLine(path))
		if !c.json {
			c.diagnostics(&diagnosed{diags, file.Files})
		}
		return tested, err
	}
	if err := c.line("%s", visibleLine(path)); err != nil {
		return tested, err
	}
	w, err := c.newTestWorld()
	if err != nil {
		return tested, err
	}
	defer w.close()
	skip := false
	for _, run := range file.Runs {
		done := testedRun{Name: run.Name, Line: run.Source.Start.Line, Status: testSkip}
		if !skip && strings.Contains(run.Name, c.filter) && ctx.Err() == nil {
			done = c.runOne(ctx, w, file, run)
			skip = done.Status == testError
		}
		tested.Runs = append(tested.Runs, done)
		if err := c.showRun(done); err != nil {
			return tested, err
		}
	}
	return tested, nil
}

// line prints a line of the results unless the command prints JSON.
func (c *testCommand) line(format string, args ...any) error {
	if c.json {
		return nil
	}
	return c.ui.Print(format, args...)
}

// showRun prints the result of a run on stdout, and the reasons of a failure on stderr.
func (c *testCommand) showRun(done testedRun) error {
	status := string(done.Status)
	switch done.Status {
	case testFail, testError:
		status = terminal.Paint(c.ui.OutColor, terminal.StyleError, status)
	case testSkip:
		status = terminal.Paint(c.ui.OutColor, terminal.StyleFaint, status)
	}
	if err := c.line("  run %s: %s", text.Quote(done.Name), status); err != nil || done.failure == nil || c.json {
		return err
	}
	if diags, ok := errors.AsType[*diagnosed](done.failure); ok {
		c.diagnostics(diags)
		return nil
	}
	c.failure(done.failure)
	return nil
}

// runOne executes one run.
func (c *testCommand) runOne(ctx context.Context, w *testWorld, file *config.TestFile, run config.TestRun) testedRun {
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, fmt.Errorf("the run took longer than %s", runTimeout))
	defer cancel()
	started := time.Now()
	done := testedRun{Name: run.Name, Line: run.Source.Start.Line, Status: testPass}
	summary, err := w.run(ctx, c.variables, file, run)
	done.Seconds, done.Plan, done.failure = time.Since(started).Seconds(), summary, err
	failed, isRule := errors.AsType[*failedRun](err)
	if isRule {
		done.failure = failed.diagnosed
	}
	switch {
	case err == nil:
		return done
	case isRule:
		done.Status = testFail
	default:
		done.Status = testError
	}
	if diags, ok := errors.AsType[*diagnosed](done.failure); ok {
		done.Diagnostics = config.JSON(diags.diags, diags.files).Diagnostics
	} else {
		done.Error = err.Error()
	}
	return done
}

// failedRun is the error of a run with a false condition.
type failedRun struct{ *diagnosed }

// sources joins the sources of a configuration and of a file with tests, for diagnostics.
func sources(of ...map[string]*hcl.File) map[string]*hcl.File {
	all := map[string]*hcl.File{}
	for _, files := range of {
		maps.Copy(all, files)
	}
	return all
}
