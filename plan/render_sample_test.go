package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

var renderUpdate = flag.Bool("update-render", false, "rewrite what the renderers are compared with")

// renderGolden compares got with testdata/render/name.
func renderGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "render", name)
	if *renderUpdate {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with go test ./plan -update-render", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nif this is meant: go test ./plan -update-render", path, diff)
	}
}

func renderText(t testing.TB, p Plan, o TextOptions) string {
	t.Helper()
	var b strings.Builder
	if err := p.WriteText(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func renderMarkdownText(t testing.TB, p Plan, limit int) string {
	t.Helper()
	var b strings.Builder
	if err := p.WriteMarkdown(&b, limit); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var sampleNow = time.Date(2026, 3, 2, 13, 30, 0, 0, time.UTC)

func sampleSource(line int) resources.Source { return resources.Source{File: "main.hcl", Line: line} }

func sampleUnchanged(n int) (things Unchanged) {
	for i := range n {
		things.addresses = append(things.addresses, Address(fmt.Sprintf("node.%010d", 100+i)))
	}
	return things
}

func sampleTouch(subject string) []Fingerprint { return []Fingerprint{{Subject: subject, Digest: "7"}} }

func sampleBuild(image string) Step {
	return Step{ID: "build diskimage." + image, Address: Address("diskimage." + image), Action: ActionBuild, Thing: ThingBuild,
		Reason: ReasonInputsChanged, Evidence: []Fact{{"build", "4f1c8a0e5d7b49a2a3f2c6d1e0b98765"}, {"runs", "14"}},
		Changes: []Change{{Attribute: "elements", Before: `["debian-minimal","vm","simple-init"]`,
			After: `["debian-minimal","vm","simple-init","growroot"]`, Forces: true}},
		Files: []FileChange{{"elements/ci/element-deps", FileChanged}, {"elements/ci/install.d/10-cache", FileRemoved},
			{"elements/ci/install.d/20-cache", FileAdded}},
		Image: image, ImageKind: resources.DiskImage, Formats: []string{"qcow2", "raw"}, Replaces: true, Estimate: 2280, Source: sampleSource(12)}
}

func sampleUpload(image, provider string, minutes float64) Step {
	at := Address("provider." + provider + ".image." + image)
	return Step{ID: "upload " + string(at), Address: at, Action: ActionUpload, Thing: ThingUpload, Reason: ReasonNotUploaded,
		Needs: []string{"build diskimage." + image}, Image: image, ImageKind: resources.DiskImage, Format: "qcow2", Provider: provider, Estimate: minutes * 60,
		Source: sampleSource(12)}
}

func sampleLaunch(label string, n int) Step {
	at := Address("provider.vexxhost.pool.main.label." + label)
	return Step{ID: fmt.Sprintf("launch %s #%d", at, n), Address: at, Action: ActionLaunch, Thing: ThingNode, Reason: ReasonBelowMinReady,
		Evidence: []Fact{{"min_ready", "3"}, {"ready", "0"}}, Provider: "vexxhost", Pool: "main", Label: label,
		Estimate: 95, Source: sampleSource(20)}
}

func sampleDelete(n int, label string, reason Reason, evidence ...Fact) Step {
	id := fmt.Sprintf("%010d", n)
	return Step{ID: "delete node " + id, Address: Address("node." + id), Action: ActionDelete, Thing: ThingNode, Reason: reason,
		Evidence: append([]Fact{{"state", "ready"}}, evidence...), Provider: "vexxhost", Pool: "main", Label: label,
		Record: resources.Key{Kind: resources.KindNode, ID: id}, External: fmt.Sprintf("9a1b6c52-7f0e-4d9b-8b1e-%012d", n),
		Preconditions: sampleTouch("node/" + id)}
}

// sampleReplace is a node with a changed flavor; it is deleted before its successor is launched.
func sampleReplace(n int) []Step {
	gone := sampleDelete(n, "debian-large", ReasonConfigChanged)
	gone.Replaces = true
	gone.Changes = []Change{
		{Attribute: "flavor", Before: "v3-standard-8", After: "v3-standard-16", Forces: true},
		{Attribute: "boot_volume_gb", After: "80", Forces: true},
	}
	made := sampleLaunch("debian-large", n)
	made.Reason, made.Replaces, made.Needs = ReasonConfigChanged, true, []string{gone.ID}
	made.Evidence = append([]Fact{{"replaces", string(gone.Address)}}, made.Evidence...)
	return []Step{gone, made}
}

func sampleLeak() Step {
	return Step{ID: "delete provider.vexxhost.port.3f77", Address: "provider.vexxhost.port.3f77", Action: ActionDelete, Thing: ThingLeftover,
		Reason: ReasonLeaked, Evidence: []Fact{{"sightings", "2"}, {"first_seen", "2026-03-02T07:12:00Z"}, {"node", "0000000042"}},
		Provider: "vexxhost", Type: "port", External: "3f77", Preconditions: sampleTouch("provider.vexxhost/port/3f77")}
}

// samplePlan contains all kinds of steps, notes and problems.
func samplePlan() Plan {
	p := Plan{Unchanged: sampleUnchanged(12), Deferred: []string{"ovh"}}
	p.Steps = append(p.Steps, sampleBuild("debian-bookworm"),
		sampleUpload("debian-bookworm", "vexxhost", 4), sampleUpload("debian-bookworm", "rax", 11))
	for i := range 3 {
		p.Steps = append(p.Steps, sampleLaunch("debian-small", i))
	}
	for i := range 2 {
		p.Steps = append(p.Steps, sampleReplace(7+i)...)
	}
	p.Steps = append(p.Steps,
		Step{ID: "register provider.lab.pool.main.node.static01.example.com", Address: "provider.lab.pool.main.node.static01.example.com",
			Action: ActionRegister, Thing: ThingNode, Reason: ReasonNewStaticNode, Provider: "lab", Pool: "main",
			Node: "static01.example.com", Source: sampleSource(61)},
		sampleDelete(21, "debian-small", ReasonMaxReadyAge, Fact{"age", "8h12m0s"}, Fact{"max_ready_age", "8h0m0s"}),
		sampleDelete(22, "debian-small", ReasonMaxReadyAge, Fact{"age", "8h3m0s"}, Fact{"max_ready_age", "8h0m0s"}),
		sampleDelete(30, "debian-small", ReasonFailed, Fact{"error", "No valid host was found. There are not enough hosts available."}),
		sampleLeak(),
		Step{ID: "forget upload 0000000012", Address: "provider.rax.image.debian-bookworm", Action: ActionForget, Thing: ThingUpload,
			Reason: ReasonLost, Image: "debian-bookworm", ImageKind: resources.DiskImage, Provider: "rax", Record: resources.Key{Kind: resources.KindUpload, ID: "0000000012"},
			External: "c0ffee00"},
		Step{ID: "delete build 1111", Address: "diskimage.debian-bookworm", Action: ActionDelete, Thing: ThingBuild, Reason: ReasonSuperseded,
			Evidence: []Fact{{"build", "11112222333344445555666677778888"}}, Image: "debian-bookworm", ImageKind: resources.DiskImage, Build: "11112222333344445555666677778888",
			Record: resources.Key{Kind: resources.KindBuild, ID: "11112222333344445555666677778888"}, Needs: []string{"build diskimage.debian-bookworm"}},
	)
	p.Notes = []Note{
		{Severity: Info, Code: "look-alike", Address: "provider.vexxhost.server.77aa", Text: `server "npctl-0000000099" looks like a node and has none of our ownership tags; npctl ignores it`},
		{Severity: Warning, Code: "deferred", Address: "provider.ovh", Text: "provider ovh could not be queried, so nothing is planned for it: authenticate: 503 Service Unavailable", Source: sampleSource(70)},
		{Severity: Warning, Code: "below-min-ready", Address: "label.arm-large", Text: "2 nodes are wanted and no pool has room for them", Source: sampleSource(9)},
	}
	p.Problems = []Problem{{Address: "provider.rax.pool.main.label.debian-small", Provider: "rax", Text: `flavor = "v3-startr-2": no such flavor`,
		Hint: "did you mean v3-starter-2, v3-starter-4?", Source: sampleSource(44)}}
	return p
}

// hostile is the name of a server that attacks terminals and review pages.
const hostile = "evil\x1b[2J\r\nPlan: 0 to build\u202e\u009b31m `|<script>alert(1)</script> ``` </details> @everyone #1 [x](http://e.example) \x00\u200b"

// hostilePlan has hostile text in all places for text from other sources.
func hostilePlan() Plan {
	p := samplePlan()
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, field := range []*string{&s.Image, &s.Build, &s.Format, &s.Provider, &s.Pool, &s.Label, &s.Node, &s.External, &s.Type, &s.Record.ID, &s.Source.File} {
			*field += hostile
		}
		s.Address += hostile
		s.Reason += hostile
		s.Formats = append(s.Formats, hostile)
		s.Needs = append(s.Needs, hostile)
		s.Evidence = append(s.Evidence, Fact{hostile, hostile})
		s.Changes = append(s.Changes, Change{Attribute: hostile, Before: hostile, After: hostile + "x", Forces: true}, Change{Attribute: hostile, Before: hostile})
		s.Preconditions = append(s.Preconditions, Fingerprint{hostile, hostile})
		s.Values = map[string]string{hostile: hostile}
		if s.Thing == ThingNode {
			s.Move = &Move{Node: hostile, From: NodePlacement{hostile, hostile, hostile}, To: NodePlacement{hostile, hostile, hostile}}
		}
	}
	p.Deferred = append(p.Deferred, hostile)
	p.Notes = append(p.Notes, Note{Severity: Warning, Code: hostile, Address: hostile, Text: hostile, Source: resources.Source{File: hostile, Line: 1}})
	p.Problems = append(p.Problems, Problem{Address: hostile, Provider: hostile, Text: hostile, Hint: hostile, Source: resources.Source{File: hostile, Line: 1}})
	return p
}

// hostileNode is a plan with one step about an object with such a name.
func hostileNode() Plan {
	leak := sampleLeak()
	leak.External = hostile
	leak.Evidence = []Fact{{"name", hostile}}
	return Plan{Steps: []Step{leak}, Notes: []Note{{Severity: Info, Code: "look-alike", Text: "server " + hostile + " is left alone"}}}
}

// bigPlan is the plan for a change of an image that a large fleet uses: n steps, few of which fold.
func bigPlan(n int) Plan {
	p := Plan{Unchanged: sampleUnchanged(n)}
	for i := 0; len(p.Steps) < n; i++ {
		label := fmt.Sprintf("label-%03d", i%97)
		provider := fmt.Sprintf("cloud-%02d", i%20)
		gone := sampleDelete(i, label, ReasonMaxReadyAge, Fact{"age", fmt.Sprintf("8h%dm0s", i%60)}, Fact{"max_ready_age", "8h0m0s"})
		made := sampleLaunch(label, i)
		gone.Provider, made.Provider = provider, provider
		p.Steps = append(p.Steps, gone, made)
		if i%10 == 0 {
			p.Steps = append(p.Steps, sampleBuild(fmt.Sprintf("image-%04d", i)), sampleUpload(fmt.Sprintf("image-%04d", i), provider, 4))
		}
	}
	p.Steps = p.Steps[:n]
	return p
}

// anyPlan draws plans with colliding names, incomplete replacements and arbitrary texts.
func anyPlan(t *rapid.T) Plan {
	var p Plan
	name := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", hostile}), rapid.StringN(0, 12, 40))
	facts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Fact { return Fact{name.Draw(t, "name"), name.Draw(t, "value")} }), 0, 3)
	changes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Change {
		return Change{name.Draw(t, "attribute"), name.Draw(t, "before"), name.Draw(t, "after"), rapid.Bool().Draw(t, "forces")}
	}), 0, 3)
	actions := rapid.SampledFrom([]Action{ActionBuild, ActionConvert, ActionUpload, ActionLaunch, ActionRegister, ActionUpdate, ActionForget, ActionDelete})
	things := rapid.SampledFrom([]Thing{ThingBuild, ThingUpload, ThingNode, ThingLeftover, ThingFile, ThingRecord})
	for i := range rapid.IntRange(0, 40).Draw(t, "steps") {
		s := Step{ID: fmt.Sprint("step ", i), Address: Address(name.Draw(t, "address")), Action: actions.Draw(t, "action"), Thing: things.Draw(t, "thing"),
			Reason:   rapid.SampledFrom([]Reason{ReasonLeaked, ReasonNoBuild, "unheard-of"}).Draw(t, "reason"),
			Evidence: facts.Draw(t, "evidence"), Changes: changes.Draw(t, "changes"),
			Image: name.Draw(t, "image"), Build: name.Draw(t, "build"), Format: name.Draw(t, "format"), Provider: name.Draw(t, "provider"),
			Pool: name.Draw(t, "pool"), Label: name.Draw(t, "label"), Node: name.Draw(t, "node"), Slot: rapid.Int64Range(0, 2).Draw(t, "slot"),
			Record:   resources.Key{Kind: rapid.SampledFrom(resources.Kinds()).Draw(t, "kind"), ID: name.Draw(t, "record")},
			External: name.Draw(t, "external"), Type: name.Draw(t, "type"), Replaces: rapid.Bool().Draw(t, "replaces"),
			Estimate: rapid.Float64Range(0, 1e6).Draw(t, "estimate"), Source: resources.Source{File: name.Draw(t, "file"), Line: rapid.IntRange(0, 9).Draw(t, "line")}}
		if s.Replaces && rapid.Bool().Draw(t, "moves") {
			s.Move = &Move{Node: name.Draw(t, "moved"), From: NodePlacement{Provider: name.Draw(t, "from")}, To: NodePlacement{s.Provider, s.Pool, name.Draw(t, "flavor")}}
		}
		if i > 0 && rapid.Bool().Draw(t, "waits") {
			s.Needs = []string{fmt.Sprint("step ", rapid.IntRange(0, i-1).Draw(t, "need"))}
		}
		p.Steps = append(p.Steps, s)
	}
	p.Unchanged.addresses = rapid.SliceOfN(rapid.Map(name, func(s string) Address { return Address(s) }), 0, 5).Draw(t, "unchanged")
	p.Deferred = rapid.SliceOfN(name, 0, 3).Draw(t, "deferred")
	p.Notes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Note {
		return Note{Severity: rapid.SampledFrom([]Severity{Info, Warning}).Draw(t, "severity"), Code: name.Draw(t, "code"), Address: Address(name.Draw(t, "address")), Text: name.Draw(t, "text")}
	}), 0, 30).Draw(t, "notes")
	p.Problems = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Problem {
		return Problem{Address: Address(name.Draw(t, "address")), Provider: name.Draw(t, "provider"), Text: name.Draw(t, "text"), Hint: name.Draw(t, "hint")}
	}), 0, 3).Draw(t, "problems")
	return p
}
