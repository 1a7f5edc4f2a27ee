package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/testutil"
)

// everyCommand calls visit with every command, the root first.
func everyCommand(t *testing.T, visit func(*cli.Command)) {
	t.Helper()
	root := newApp(terminal.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, os.LookupEnv).command()
	if err := root.Run(t.Context(), []string{"npctl", "help"}); err != nil { // links the commands to their parents
		t.Fatal(err)
	}
	count := 0
	if err := root.Walk(func(c *cli.Command) error {
		count++
		visit(c)
		return nil
	}); err != nil || count < 40 {
		t.Fatalf("%d commands, %v", count, err)
	}
}

func TestHelpOfEveryCommand(t *testing.T) {
	begin := regexp.MustCompile("^([a-z/]|`[A-Za-z]|HCL)")
	everyCommand(t, func(c *cli.Command) {
		name := c.FullName()
		if !regexp.MustCompile("^[a-z].*[^.]$").MatchString(c.Usage) {
			t.Errorf("%s: usage %q does not begin small, or ends with a full stop", name, c.Usage)
		}
		if !slices.Contains(commandCategories, c.Category) {
			t.Errorf("%s: category %q is not printed", name, c.Category)
		}
		if !c.Hidden && len(c.Commands) == 0 && !strings.Contains(c.Description, "Exit codes:") {
			t.Errorf("%s: the description has no exit codes", name)
		}
		text := helpText(c, helpWidth)
		for _, f := range visibleOptions(c) {
			doc, ok := f.(cli.DocGenerationFlag)
			if !ok {
				t.Errorf("%s: option %q has no usage", name, f.Names())
				continue
			}
			if !begin.MatchString(doc.GetUsage()) || strings.HasSuffix(doc.GetUsage(), ".") {
				t.Errorf("%s: usage of -%s does not begin small, or ends with a full stop: %s", name, f.Names()[0], doc.GetUsage())
			}
			if !strings.Contains(text, " -"+f.Names()[0]) {
				t.Errorf("%s: -%s is not in the help text", name, f.Names()[0])
			}
		}
	})
}

func TestOptionsHaveFittingHeadings(t *testing.T) {
	fitting := map[string][]string{
		"json": {categoryOutput}, "verbose": {categoryOutput}, "compact-warnings": {categoryOutput}, "var": {categoryVariables},
		"var-file": {categoryVariables}, "lock-timeout": {categoryRun}, "parallelism": {categoryRun}, "auto-approve": {categoryRun},
		"input": {categoryRun}, "dry-run": {categoryRun}, "target": {categoryPlanning}, "exclude": {categoryPlanning},
		"replace": {categoryPlanning}, "socket": {categoryConnection, categoryListen}, "label": {categoryRequest, categoryFilter},
		"tenant": {categoryRequest, categoryFilter}, "requestor": {categoryRequest, categoryFilter}, "priority": {categoryRequest},
		"provider": {categoryRequest, categoryFilter, categorySelection, categoryService}, "grace": {categoryRun, categoryGeneral},
	}
	everyCommand(t, func(c *cli.Command) {
		for _, f := range visibleOptions(c) {
			of, name := optionCategory(f), f.Names()[0]
			if !slices.Contains(optionCategories, of) {
				t.Errorf("%s -%s: heading %q is not printed", c.FullName(), name, of)
			}
			if fits := fitting[name]; fits != nil && !slices.Contains(fits, of) {
				t.Errorf("%s -%s: heading is %q, want one of %q", c.FullName(), name, of, fits)
			}
			if of == categoryPlanning && !slices.Contains([]string{"plan", "apply", "destroy", "graph", "build", "reload"}, c.Name) {
				t.Errorf("%s -%s: the command plans nothing", c.FullName(), name)
			}
		}
	})
}

func TestHelpShowsDefaults(t *testing.T) {
	everyCommand(t, func(c *cli.Command) {
		for _, f := range visibleOptions(c) {
			shown := false
			switch f := f.(type) {
			case *cli.DurationFlag, *cli.IntFlag, *cli.Int64Flag:
				shown = true
			case *cli.StringFlag:
				shown = f.Value != ""
			case *stringFlag:
				shown = f.Value != ""
			case *cli.BoolFlag:
				shown = f.Value
			}
			if _, about := optionHelp(f); shown != strings.Contains(about, "(default: ") {
				t.Errorf("%s: %s", c.FullName(), about)
			}
		}
	})
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 30 * time.Second: "30s", time.Minute: "1m", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", time.Hour: "1h", time.Hour + 5*time.Minute: "1h5m", time.Hour + time.Second: "1h0m1s"} {
		if got := durationText(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestExamplesOfConsoleAreValid(t *testing.T) {
	config := filepath.Join(t.TempDir(), "npctl.hcl")
	testutil.Must(t, os.WriteFile(config, []byte("variable \"region\" {}\nlabel \"small\" {}\n"), 0o600))
	_, examples, _ := strings.Cut(consoleDescription, "Examples:\n")
	examples, _, _ = strings.Cut(examples, "\n\n")
	count := 0
	for _, m := range regexp.MustCompile(`(?m)^  (?:echo|npctl console(?: -json)? -expr=) ?(?:'([^'\n]+)'|(\S+))`).FindAllStringSubmatch(examples, -1) {
		var out bytes.Buffer
		a := newApp(terminal.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, func(string) (string, bool) { return "", false })
		count++
		if code := a.run(t.Context(), []string{"npctl", "console", "-config=" + config, "-var=region=east", "-expr=" + m[1] + m[2]}); code != 0 {
			t.Errorf("%s: exit code %d\n%s", m[0], code, out.String())
		}
	}
	if want := strings.Count(examples, "\n"); count != want { // all but the first line, which has no expression
		t.Errorf("%d of %d examples were evaluated:\n%s", count, want, examples)
	}
}
