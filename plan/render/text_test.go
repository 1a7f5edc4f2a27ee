package render

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
)

func TestTextGolden(t *testing.T) {
	p := plantest.Plan()
	checkGolden(t, "text.txt", textOf(t, p, TextOptions{Now: plantest.Now}))
	checkGolden(t, "text-80.txt", textOf(t, p, TextOptions{Width: 80}))
	checkGolden(t, "text-verbose.txt", textOf(t, p, TextOptions{Verbose: true}))
	checkGolden(t, "text-concise.txt", textOf(t, p, TextOptions{Concise: true}))
	checkGolden(t, "text-color.txt", strings.ReplaceAll(textOf(t, p, TextOptions{Color: true}), "\x1b", "ESC"))
	checkGolden(t, "text-hostile.txt", textOf(t, plantest.HostileNode(), TextOptions{}))
}

func TestEmptyPlanIsOneLine(t *testing.T) {
	if got, want := textOf(t, plan.Plan{}, TextOptions{}), "No changes.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := textOf(t, plan.Plan{Unchanged: plantest.Unchanged(12)}, TextOptions{}), "(12 unchanged hidden)\n\nNo changes.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestColorsOnlyWithOption(t *testing.T) {
	plain := textOf(t, plantest.Plan(), TextOptions{})
	if strings.ContainsRune(plain, '\x1b') {
		t.Error("escape sequences though no colours were asked for")
	}
	t.Setenv("NO_COLOR", "1") // Text ignores it: its caller checks it
	colored := textOf(t, plantest.Plan(), TextOptions{Color: true})
	for _, want := range []string{"\x1b[32m+\x1b[", "\x1b[31m-\x1b[", "\x1b[31m-/+\x1b[", "\x1b[33m~\x1b[", "\x1b[31m  # forces replacement\x1b["} {
		if !strings.Contains(colored, want) {
			t.Errorf("no %q in the coloured text", want)
		}
	}
	if got := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colored, ""); got != plain {
		t.Errorf("colours change the text (-plain +coloured):\n%s", cmp.Diff(plain, got))
	}
}

func TestIdenticalLaunchesAreFolded(t *testing.T) {
	p := plan.Plan{Steps: []plan.Step{plantest.Launch("debian-small", 0), plantest.Launch("debian-small", 1), plantest.Launch("debian-small", 2)}}
	want := `                   launch
provider.vexxhost       3

Takes at least 95 s, based on earlier runs.

provider.vexxhost
  + 3 nodes debian-small in vexxhost/main, about 95 s each
      because fewer nodes are ready than min_ready requires (below-min-ready): min_ready 3, ready 0 [main.hcl:20]

Plan: 0 to build, 0 to upload, 3 to launch, 0 to delete.
`
	if diff := cmp.Diff(want, textOf(t, p, TextOptions{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSlotsOfStaticNodesAreCounted(t *testing.T) {
	register := func(node string, slot int64) plan.Step {
		return plan.Step{ID: fmt.Sprint(node, slot), Kind: plan.KindRegisterSlot, Reason: plan.ReasonNewStaticNode,
			Provider: "lab", Pool: "main", Node: node, Slot: slot}
	}
	for _, c := range []struct {
		steps []plan.Step
		want  string
	}{
		{[]plan.Step{register("a", 0)}, "  + register a in lab/main\n      because"},
		{[]plan.Step{register("a", 0), register("a", 1)}, "  + register a (2 slots) in lab/main\n      because the node is new in the configuration (new-static-node)\n\nPlan:"},
		{[]plan.Step{register("a", 0), register("b", 0)}, "  + register 2 static nodes in lab/main\n      because the node is new in the configuration (new-static-node)\n      a, b\n"},
		{[]plan.Step{register("a", 0), register("a", 1), register("b", 0)}, "  + register 3 slots of 2 static nodes in lab/main\n      because the node is new in the configuration (new-static-node)\n      a (2 slots), b\n"},
	} {
		if text := textOf(t, plan.Plan{Steps: c.steps}, TextOptions{}); !strings.Contains(text, c.want) {
			t.Errorf("no\n%s\nin\n%s", c.want, text)
		}
	}
}

func TestLeaksAreNeverFolded(t *testing.T) {
	p := plan.Plan{Steps: []plan.Step{plantest.Leak(), plantest.Leak()}}
	p.Steps[1].External, p.Steps[1].ID = "4e88", "another"
	text := textOf(t, p, TextOptions{})
	for _, want := range []string{"! delete leaked port 3f77 in vexxhost", "! delete leaked port 4e88 in vexxhost"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestReplacementSymbolShowsOrder(t *testing.T) {
	steps := plantest.Replace(7)
	gone, made := &steps[0], &steps[1]
	made.Needs, gone.Needs = nil, []string{made.ID}
	text := textOf(t, plan.Plan{Steps: []plan.Step{*made, *gone}}, TextOptions{})
	if want := "+/- replace node 0000000007 debian-large in vexxhost/main"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestHalvesOfReplacementsArePairedByPool(t *testing.T) {
	var p plan.Plan
	for _, label := range []string{"a", "b", "b"} {
		gone := plantest.Delete(len(p.Steps), label, plan.ReasonConfigChanged)
		gone.Replaces = true
		p.Steps = append(p.Steps, gone)
	}
	for i, label := range []string{"b", "c", "a"} {
		made := plantest.Launch(label, i)
		made.Replaces = true
		p.Steps = append(p.Steps, made)
	}
	text := textOf(t, p, TextOptions{Concise: true})
	want := `-/+ replace node 0000000000 a in vexxhost/main, cloud id 9a1b6c52-7f0e-4d9b-8b1e-000000000000 (config-changed)
-/+ replace node 0000000001 b in vexxhost/main, cloud id 9a1b6c52-7f0e-4d9b-8b1e-000000000001 (config-changed)
  - delete node 0000000002 b in vexxhost/main, cloud id 9a1b6c52-7f0e-4d9b-8b1e-000000000002 (config-changed)
  + 1 node c in vexxhost/main (below-min-ready)
Plan: 0 to build, 0 to upload, 1 to launch, 2 to replace, 1 to delete.
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEachHalfOfAReplacementIsPairedOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var p plan.Plan
		for i := range rapid.IntRange(0, 12).Draw(r, "steps") {
			s := plan.Step{ID: fmt.Sprint(i), Kind: rapid.SampledFrom([]plan.Kind{plan.KindLaunch, plan.KindDeleteNode}).Draw(r, "kind"),
				Label: rapid.SampledFrom([]string{"a", "b"}).Draw(r, "label"), Replaces: rapid.IntRange(0, 4).Draw(r, "replaces") > 0}
			for range rapid.IntRange(0, 2).Draw(r, "waits") {
				s.Needs = append(s.Needs, fmt.Sprint(rapid.IntRange(0, 12).Draw(r, "need")))
			}
			p.Steps = append(p.Steps, s)
		}
		pairs := plan.Replacements(p.Steps)
		for i, j := range pairs {
			a, b := p.Steps[i], p.Steps[j]
			if pairs[j] != i || !a.Replaces || !b.Replaces || (a.Action == plan.ActionDelete) == (b.Action == plan.ActionDelete) {
				r.Fatalf("%d and %d are a pair of %+v", i, j, p.Steps)
			}
		}
	})
}

func TestHalfAReplacementIsPrintedAsSingleStep(t *testing.T) {
	text := textOf(t, plan.Plan{Steps: plantest.Replace(7)[:1]}, TextOptions{})
	if want := "  - delete node 0000000007 debian-large in vexxhost/main, cloud id 9a1b6c52-7f0e-4d9b-8b1e-000000000007"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestFoldedNodesAreNamedUpToLimit(t *testing.T) {
	var p plan.Plan
	for i := range 40 {
		p.Steps = append(p.Steps, plantest.Delete(i, "debian-small", plan.ReasonMaxReadyAge, plan.Fact{Name: "age", Value: fmt.Sprint(8+i, "h")}))
	}
	text := textOf(t, p, TextOptions{})
	for _, want := range []string{"- delete 40 nodes debian-small in vexxhost/main", "age 8h … 47h (40 values)", "0000000011 and 28 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	verbose := textOf(t, p, TextOptions{Verbose: true})
	for i := range 40 {
		if want := fmt.Sprintf("node %010d debian-small", i); !strings.Contains(verbose, want) {
			t.Errorf("verbose text does not name %q", want)
		}
	}
}

func TestLongValuesAreCutToTheDifference(t *testing.T) {
	shared := strings.Repeat("package-that-stays ", 40)
	before, after := narrow(shared+"kernel-6.8.0-45", shared+"kernel-6.8.0-47")
	if before != "…s kernel-6.8.0-45" || after != "…s kernel-6.8.0-47" {
		t.Errorf("got %q and %q", before, after)
	}
	if a, b := narrow("", shared); a != "" || !strings.Contains(b, "bytes more") {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestManyBlocksBecomeOneRow(t *testing.T) {
	var p plan.Plan
	for i := range 50 {
		p.Steps = append(p.Steps, plantest.Build(fmt.Sprint("image-", i)))
	}
	p.Steps = append(p.Steps, plantest.Launch("debian-small", 0))
	text := textOf(t, p, TextOptions{})
	want := "                   build  launch\n50 images             50\nprovider.vexxhost              1\n"
	if !strings.HasPrefix(text, want) {
		t.Errorf("got\n%s\nwant it to start with\n%s", text, want)
	}
}

func TestManyNotesOfACodeAreCounted(t *testing.T) {
	var p plan.Plan
	for i := range 25 {
		p.Notes = append(p.Notes, plan.Note{Severity: plan.Info, Code: "look-alike", Text: fmt.Sprint("server ", i)})
	}
	p.Notes = append(p.Notes, plan.Note{Severity: plan.Info, Code: "unmanaged", Text: "others"})
	text := textOf(t, p, TextOptions{})
	if !strings.Contains(text, "server 9 (look-alike)\n  note: others (unmanaged)\n  (15 more look-alike hidden)\n\nNo changes.\n") {
		t.Errorf("got\n%s", text)
	}
	if verbose := textOf(t, p, TextOptions{Verbose: true}); !strings.Contains(verbose, "server 24 ") || strings.Contains(verbose, "hidden") {
		t.Errorf("got\n%s", verbose)
	}
}

func TestEstimatedTimeIsTheLongestChain(t *testing.T) {
	steps := []plan.Step{plantest.Build("debian"), plantest.Upload("debian", "rax", 11), plantest.Upload("debian", "vexxhost", 4)}
	if got, want := criticalPath(steps), 2280.0+660; got != want {
		t.Errorf("got %v s, want %v s", got, want)
	}
	steps[2].After = []string{steps[1].ID}
	if got, want := criticalPath(steps), 2280.0+660+240; got != want {
		t.Errorf("with one after the other: got %v s, want %v s", got, want)
	}
	steps[2].After = nil
	text := textOf(t, plan.Plan{Steps: steps}, TextOptions{Now: plantest.Now.Add(10 * time.Hour)})
	if want := "Takes at least 49 min, based on earlier runs: until about 00:19 UTC on 3 March.\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestDurationsAreRounded(t *testing.T) {
	for seconds, want := range map[float64]string{0.2: "1 s", 41.4: "41 s", 99: "99 s", 130: "2 min", 2280: "38 min", 7200: "2 h", 8000: "2 h 15 min"} {
		if got := durationText(seconds); got != want {
			t.Errorf("%v s: got %q, want %q", seconds, got, want)
		}
	}
}

func TestLinesAreWrappedByDisplayWidth(t *testing.T) {
	p := plantest.Plan()
	p.Notes = append(p.Notes, plan.Note{Code: "wide", Text: strings.Repeat("日本語の名前 ", 30)})
	for _, width := range []int{40, 80, 120} {
		_, text, _ := strings.Cut(textOf(t, p, TextOptions{Width: width}), "\n\n") // the table is not wrapped
		text = strings.TrimSuffix(text, p.Summary().String()+"\n")                 // and neither is the last line
		if strings.Count(text, "日本語の名前") != 30 {
			t.Errorf("width %d: wrapping lost words", width)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			words := strings.Fields(line)
			if textWidth(line) > width && len(words) > 1 && textWidth(words[len(words)-1])+8 <= width {
				t.Errorf("%d columns at width %d: %q", textWidth(line), width, line)
			}
		}
	}
}

func TestWriteErrorIsReturned(t *testing.T) {
	full := errors.New("disk is full")
	if err := Text(writerFunc(func([]byte) (int, error) { return 0, full }), plantest.Plan(), TextOptions{}); !errors.Is(err, full) {
		t.Errorf("Text: got %v, want %v", err, full)
	}
	if err := Markdown(writerFunc(func([]byte) (int, error) { return 0, full }), plantest.Plan(), 0); !errors.Is(err, full) {
		t.Errorf("Markdown: got %v, want %v", err, full)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestTextEndsWithSummaryAndIsEscaped(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := plantest.DrawPlan(r)
		o := TextOptions{Width: rapid.SampledFrom([]int{0, 1, 60, 200}).Draw(r, "width"), Verbose: rapid.Bool().Draw(r, "verbose"), Concise: rapid.Bool().Draw(r, "concise")}
		got := textOf(t, p, o)
		if !strings.HasSuffix("\n"+got, "\n"+p.Summary().String()+"\n") {
			r.Fatalf("last line is not the summary:\n%s", got)
		}
		for _, c := range got {
			if c != '\n' && text.Hostile(c) {
				r.Fatalf("%q in\n%s", c, got)
			}
		}
	})
}

func TestFoldingLosesNoStep(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := plantest.DrawPlan(r)
		seen := map[string]int{}
		total := plan.Summary{Unchanged: p.Unchanged.Count(), Deferred: len(p.Deferred), InProgress: p.InProgress != nil, Problems: len(p.Problems) > 0}
		for _, g := range groupSteps(p, rapid.Bool().Draw(r, "verbose")) {
			inGroup := 0
			for _, e := range g.entries {
				if len(e.other) != 0 && len(e.other) != len(e.lead) {
					r.Fatalf("a replacement of %d by %d", len(e.lead), len(e.other))
				}
				inGroup += len(e.lead) + len(e.other)
				for _, s := range append(append([]*plan.Step{}, e.lead...), e.other...) {
					seen[s.ID]++
				}
			}
			total.Merge(g.counts)
			if inGroup != g.counts.Total {
				r.Fatalf("%s counts %d steps and shows %d", g.title, g.counts.Total, inGroup)
			}
		}
		for _, s := range p.Steps {
			if seen[s.ID] != 1 {
				r.Fatalf("%s is shown %d times", s.ID, seen[s.ID])
			}
		}
		for _, kind := range plan.ActionKinds() {
			if want, shown := p.Summary().Count(kind.Action), total.Count(kind.Action); want != shown {
				r.Fatalf("%d to %s, shown %d", want, kind.Action, shown)
			}
		}
		away := 0 // replacements in two blocks
		for i, j := range plan.Replacements(p.Steps) {
			if p.Steps[i].Move != nil && p.Steps[i].Provider != p.Steps[j].Provider {
				away++
			}
		}
		if p.Summary().Replace != total.Replace+away/2 {
			r.Fatalf("%d replacements, of which %d in two blocks, and the blocks have %d", p.Summary().Replace, away/2, total.Replace)
		}
	})
}

// TestFoldedTitlesAddUp reads the numbers from the text itself, to detect titles with wrong counts.
func TestFoldedTitlesAddUp(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var p plan.Plan
		for i := range rapid.IntRange(1, 60).Draw(r, "steps") {
			if rapid.Bool().Draw(r, "launch") {
				p.Steps = append(p.Steps, plantest.Launch(rapid.SampledFrom([]string{"a", "b"}).Draw(r, "label"), i))
			} else {
				p.Steps = append(p.Steps, plantest.Delete(i, rapid.SampledFrom([]string{"a", "b"}).Draw(r, "label"), plan.ReasonUsed))
			}
		}
		got := 0
		for _, m := range regexp.MustCompile(`(?m)^  [+-] (?:delete )?(?:(\d+) nodes?|node \d+) [ab] in `).FindAllStringSubmatch(textOf(t, p, TextOptions{}), -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				n = 1
			}
			got += n
		}
		if got != len(p.Steps) {
			r.Fatalf("titles stand for %d of %d steps:\n%s", got, len(p.Steps), textOf(t, p, TextOptions{}))
		}
	})
}

func BenchmarkText(b *testing.B) {
	p := plantest.BigPlan(10_000)
	b.ReportAllocs()
	for b.Loop() {
		testutil.Must(b, Text(io.Discard, p, TextOptions{Width: 120, Color: true}))
	}
}

// BenchmarkTextUnfolded prints 10,000 leaks, which have separate entries.
func BenchmarkTextUnfolded(b *testing.B) {
	var p plan.Plan
	for i := range 10_000 {
		leak := plantest.Leak()
		leak.ID, leak.External = fmt.Sprint(i), fmt.Sprint(i)
		p.Steps = append(p.Steps, leak)
	}
	b.ReportAllocs()
	for b.Loop() {
		testutil.Must(b, Text(io.Discard, p, TextOptions{Width: 120}))
	}
}

func BenchmarkTextVerbose(b *testing.B) {
	p := plantest.BigPlan(10_000)
	for b.Loop() {
		testutil.Must(b, Text(io.Discard, p, TextOptions{Verbose: true}))
	}
}

func TestManyInputFilesAreCounted(t *testing.T) {
	s := plantest.Build("debian")
	s.Changes, s.Files = nil, nil
	for i := range 12 {
		s.Files = append(s.Files, plan.FileChange{Path: fmt.Sprintf("files/%02d", i), Change: plan.FileChanged})
	}
	p := plan.Plan{Steps: []plan.Step{s}}
	for name, text := range map[string]string{"text": textOf(t, p, TextOptions{}), "Markdown": markdownOf(t, p, 0)} {
		if !strings.Contains(text, "~ file files/04  # changed\n") || strings.Contains(text, "files/05") || !strings.Contains(text, " and 7 more\n") {
			t.Errorf("%s does not show five of twelve files:\n%s", name, text)
		}
	}
	if text := textOf(t, p, TextOptions{Verbose: true}); strings.Count(text, "~ file ") != 12 {
		t.Errorf("-verbose does not show twelve files:\n%s", text)
	}
}

func TestPlannedValuesArePrintedInMarkdownAndWithVerbose(t *testing.T) {
	launch, upload := plantest.Launch("small", 1), plantest.Upload("debian", "cloud", 4)
	launch.Values = map[string]string{"flavor": `"medium"`, "cores": "4", "networks": `["private"]`, "userdata": `"(sensitive)"`}
	upload.Values = map[string]string{"name": `"ci-debian-{timestamp}"`, "properties": `{"os":"debian"}`}
	p := plan.Plan{Steps: []plan.Step{launch, upload}}
	for name, text := range map[string]string{"text": textOf(t, p, TextOptions{Verbose: true}), "Markdown": markdownOf(t, p, 0)} {
		for _, want := range []string{`with cores 4, flavor "medium", networks ["private"], userdata "(sensitive)"`, `with name "ci-debian-{timestamp}", properties {"os":"debian"}`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s:\n%s", name, want, text)
			}
		}
	}
	if text := textOf(t, p, TextOptions{}); strings.Contains(text, "with ") {
		t.Errorf("without -verbose:\n%s", text)
	}
}
