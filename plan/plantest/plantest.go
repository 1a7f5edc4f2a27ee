// Package plantest has plans for the tests of packages that print or store them.
package plantest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// Now is the time of the sample plan.
var Now = time.Date(2026, 3, 2, 13, 30, 0, 0, time.UTC)

// source returns a position in the configuration.
func source(line int) resources.Source { return resources.Source{File: "main.hcl", Line: line} }

// Unchanged returns the addresses of n nodes.
func Unchanged(n int) plan.Unchanged {
	var addresses []string
	for i := range n {
		addresses = append(addresses, fmt.Sprintf("node.%010d", 100+i))
	}
	return unchangedOf(addresses)
}

func unchangedOf(addresses []string) (u plan.Unchanged) {
	list, err := json.Marshal(addresses)
	if err == nil {
		err = json.Unmarshal(list, &u)
	}
	if err != nil {
		panic(err)
	}
	return u
}

func sampleTouch(subject string) []plan.Fingerprint {
	return []plan.Fingerprint{{Subject: subject, Digest: "7"}}
}

// Build returns the step of a build because of changed inputs.
func Build(image string) plan.Step {
	return plan.Step{ID: "build diskimage." + image, Address: plan.Address("diskimage." + image), Kind: plan.KindBuild,
		Reason: plan.ReasonInputsChanged, Evidence: []plan.Fact{{Name: "build", Value: "4f1c8a0e5d7b49a2a3f2c6d1e0b98765"}, {Name: "runs", Value: "14"}},
		Changes: []plan.Change{{Attribute: "elements", Before: `["debian-minimal","vm","simple-init"]`,
			After: `["debian-minimal","vm","simple-init","growroot"]`, Forces: true}},
		Files: []plan.FileChange{{Path: "elements/ci/element-deps", Change: plan.FileChanged}, {Path: "elements/ci/install.d/10-cache", Change: plan.FileRemoved},
			{Path: "elements/ci/install.d/20-cache", Change: plan.FileAdded}},
		Image: image, ImageKind: resources.DiskImage, Formats: []string{"qcow2", "raw"}, Replaces: true, Estimate: 2280, Source: source(12)}
}

// Upload returns the step of an upload of the build of Build.
func Upload(image, provider string, minutes float64) plan.Step {
	at := plan.Address("provider." + provider + ".image." + image)
	return plan.Step{ID: "upload " + string(at), Address: at, Kind: plan.KindUpload, Reason: plan.ReasonNotUploaded,
		Needs: []string{"build diskimage." + image}, Image: image, ImageKind: resources.DiskImage, Format: "qcow2", Provider: provider, Estimate: minutes * 60,
		Source: source(12)}
}

// Launch returns the step of the n-th launch of a label.
func Launch(label string, n int) plan.Step {
	at := plan.Address("provider.vexxhost.pool.main.label." + label)
	return plan.Step{ID: fmt.Sprintf("launch %s #%d", at, n), Address: at, Kind: plan.KindLaunch, Reason: plan.ReasonBelowMinReady,
		Evidence: []plan.Fact{{Name: "min_ready", Value: "3"}, {Name: "ready", Value: "0"}}, Provider: "vexxhost", Pool: "main", Label: label,
		Estimate: 95, Source: source(20)}
}

// Delete returns the step that deletes node n.
func Delete(n int, label string, reason plan.Reason, evidence ...plan.Fact) plan.Step {
	id := fmt.Sprintf("%010d", n)
	return plan.Step{ID: "delete node " + id, Address: plan.Address("node." + id), Kind: plan.KindDeleteNode, Reason: reason,
		Evidence: append([]plan.Fact{{Name: "state", Value: "ready"}}, evidence...), Provider: "vexxhost", Pool: "main", Label: label,
		Record: resources.Key{Kind: resources.KindNode, ID: id}, External: fmt.Sprintf("9a1b6c52-7f0e-4d9b-8b1e-%012d", n),
		Preconditions: sampleTouch("node/" + id)}
}

// Replace returns the steps of a node with a changed flavor, which is deleted before its successor is launched.
func Replace(n int) []plan.Step {
	gone := Delete(n, "debian-large", plan.ReasonConfigChanged)
	gone.Replaces = true
	gone.Changes = []plan.Change{
		{Attribute: "flavor", Before: "v3-standard-8", After: "v3-standard-16", Forces: true},
		{Attribute: "boot_volume_gb", After: "80", Forces: true},
	}
	made := Launch("debian-large", n)
	made.Reason, made.Replaces, made.Needs = plan.ReasonConfigChanged, true, []string{gone.ID}
	made.Evidence = append([]plan.Fact{{Name: "replaces", Value: string(gone.Address)}}, made.Evidence...)
	return []plan.Step{gone, made}
}

// Leak returns the step that deletes a leaked port.
func Leak() plan.Step {
	return plan.Step{ID: "delete provider.vexxhost.port.3f77", Address: "provider.vexxhost.port.3f77", Kind: plan.KindDeleteLeftover,
		Reason: plan.ReasonLeaked, Evidence: []plan.Fact{{Name: "sightings", Value: "2"}, {Name: "first_seen", Value: "2026-03-02T07:12:00Z"}, {Name: "node", Value: "0000000042"}},
		Provider: "vexxhost", Type: "port", External: "3f77", Preconditions: sampleTouch("provider.vexxhost/port/3f77")}
}

// Least has a label that is never empty, an empty one with a successor, and an empty one without.
func Least(name string) []plan.LeastReady {
	of := func(label string) plan.Supply { return plan.Supply{Label: label + name} }
	in := func(provider string) plan.Supply {
		return plan.Supply{Image: "debian" + name, Provider: provider + name}
	}
	return []plan.LeastReady{{Supply: of("debian-large"), Ready: 2, Empty: 95}, {Supply: of("debian-old"), Ready: 1, Stays: true},
		{Supply: of("debian-small"), Ready: 3, Least: 1}, {Supply: in("vexxhost"), Ready: 1, Empty: 40}, {Supply: in("rax"), Ready: 2, Least: 1}}
}

// Cost is a cost in which name is part of each name.
func Cost(name string, euros float64) resources.Cost {
	rates := func(n float64) resources.CostRates {
		of := func(n float64) resources.Rate { return resources.MoneyOf(euros, n).Rate() }
		return resources.CostRates{MinReady: of(n), Now: of(n + 2), Limits: of(10 * n)}
	}
	return resources.Cost{
		Totals:    []resources.CostLine{{Currency: "EUR" + name, CostRates: rates(7)}},
		Providers: []resources.CostLine{{Provider: "vexxhost" + name, Currency: "EUR" + name, CostRates: rates(7)}},
		Labels: []resources.CostLine{{Provider: "vexxhost" + name, Label: "debian-large" + name, Currency: "EUR" + name, Pools: []string{"main" + name}, CostRates: rates(4)},
			{Provider: "vexxhost" + name, Label: "debian-small" + name, Currency: "EUR" + name, Pools: []string{"main" + name}, CostRates: rates(3)}},
		WithoutPrice: []resources.UnpricedNodes{{Provider: "lab" + name, Label: "metal" + name, Static: true, MinReady: 1}},
		Unlimited:    []string{"rax/main" + name},
	}
}

// Plan contains all kinds of steps, notes and problems.
func Plan() plan.Plan {
	p := plan.Plan{Unchanged: Unchanged(12), Deferred: []string{"ovh"}, Cost: Cost("", 0.042), Least: Least("")}
	p.Steps = append(p.Steps, Build("debian-bookworm"),
		Upload("debian-bookworm", "vexxhost", 4), Upload("debian-bookworm", "rax", 11))
	for i := range 3 {
		p.Steps = append(p.Steps, Launch("debian-small", i))
	}
	for i := range 2 {
		p.Steps = append(p.Steps, Replace(7+i)...)
	}
	p.Steps = append(p.Steps,
		plan.Step{ID: "register provider.lab.pool.main.node.static01.example.com", Address: "provider.lab.pool.main.node.static01.example.com",
			Kind: plan.KindRegisterSlot, Reason: plan.ReasonNewStaticNode, Provider: "lab", Pool: "main",
			Node: "static01.example.com", Source: source(61)},
		Delete(21, "debian-small", plan.ReasonMaxReadyAge, plan.Fact{Name: "age", Value: "8h12m0s"}, plan.Fact{Name: "max_ready_age", Value: "8h0m0s"}),
		Delete(22, "debian-small", plan.ReasonMaxReadyAge, plan.Fact{Name: "age", Value: "8h3m0s"}, plan.Fact{Name: "max_ready_age", Value: "8h0m0s"}),
		Delete(30, "debian-small", plan.ReasonFailed, plan.Fact{Name: "error", Value: "No valid host was found. There are not enough hosts available."}),
		Leak(),
		plan.Step{ID: "forget upload 0000000012", Address: "provider.rax.image.debian-bookworm", Kind: plan.KindForgetUpload,
			Reason: plan.ReasonLost, Image: "debian-bookworm", ImageKind: resources.DiskImage, Provider: "rax", Record: resources.Key{Kind: resources.KindUpload, ID: "0000000012"},
			External: "c0ffee00"},
		plan.Step{ID: "delete build 1111", Address: "diskimage.debian-bookworm", Kind: plan.KindDeleteBuild, Reason: plan.ReasonSuperseded,
			Evidence: []plan.Fact{{Name: "build", Value: "11112222333344445555666677778888"}}, Image: "debian-bookworm", ImageKind: resources.DiskImage, Build: "11112222333344445555666677778888",
			Record: resources.Key{Kind: resources.KindBuild, ID: "11112222333344445555666677778888"}, Needs: []string{"build diskimage.debian-bookworm"}},
	)
	p.Notes = []plan.Note{
		{Severity: plan.Info, Code: "look-alike", Address: "provider.vexxhost.server.77aa", Text: `server "npctl-0000000099" looks like a node but has no ownership tags of npctl; npctl ignores it`},
		{Severity: plan.Warning, Code: "deferred", Address: "provider.ovh", Text: "provider ovh could not be listed, so nothing is planned for it: authenticate: 503 Service Unavailable", Source: source(70)},
		{Severity: plan.Warning, Code: "below-min-ready", Address: "label.arm-large", Text: "2 nodes are wanted and no pool has capacity for them", Source: source(9)},
	}
	p.Problems = []plan.Problem{{Address: "provider.rax.pool.main.label.debian-small", Provider: "rax", Text: `flavor = "v3-startr-2": no such flavor`,
		Hint: "did you mean v3-starter-2, v3-starter-4?", Source: source(44)}}
	return p
}

// hostile is the name of a server that attacks terminals and review pages.
const HostileName = "evil\x1b[2J\r\nPlan: 0 to build\u202e\u009b31m `|<script>alert(1)</script> ``` </details> @everyone #1 [x](http://e.example) \x00\u200b"

// HostilePlan has hostile text in all places for text from other sources.
func HostilePlan() plan.Plan {
	p := Plan()
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, field := range []*string{&s.Image, &s.Build, &s.Format, &s.Provider, &s.Pool, &s.Label, &s.Node, &s.External, &s.Type, &s.Record.ID, &s.Source.File} {
			*field += HostileName
		}
		s.Address += HostileName
		s.Reason += HostileName
		s.Formats = append(s.Formats, HostileName)
		s.Needs = append(s.Needs, HostileName)
		s.Evidence = append(s.Evidence, plan.Fact{Name: HostileName, Value: HostileName})
		s.Changes = append(s.Changes, plan.Change{Attribute: HostileName, Before: HostileName, After: HostileName + "x", Forces: true}, plan.Change{Attribute: HostileName, Before: HostileName})
		s.Preconditions = append(s.Preconditions, plan.Fingerprint{Subject: HostileName, Digest: HostileName})
		s.Values = map[string]string{HostileName: HostileName}
		if s.Thing == plan.ThingNode {
			s.Move = &plan.Move{Node: HostileName, From: plan.NodePlacement{Provider: HostileName, Pool: HostileName, Flavor: HostileName}, To: plan.NodePlacement{Provider: HostileName, Pool: HostileName, Flavor: HostileName}}
		}
	}
	p.Deferred, p.Cost, p.Least = append(p.Deferred, HostileName), Cost(HostileName, 1), Least(HostileName)
	p.Notes = append(p.Notes, plan.Note{Severity: plan.Warning, Code: HostileName, Address: HostileName, Text: HostileName, Source: resources.Source{File: HostileName, Line: 1}})
	p.Problems = append(p.Problems, plan.Problem{Address: HostileName, Provider: HostileName, Text: HostileName, Hint: HostileName, Source: resources.Source{File: HostileName, Line: 1}})
	return p
}

// HostileNode is a plan with one step about an object with such a name.
func HostileNode() plan.Plan {
	leak := Leak()
	leak.External = HostileName
	leak.Evidence = []plan.Fact{{Name: "name", Value: HostileName}}
	return plan.Plan{Steps: []plan.Step{leak}, Notes: []plan.Note{{Severity: plan.Info, Code: "look-alike", Text: "server " + HostileName + " is ignored"}}}
}

// BigPlan is the plan for a change of an image that a large fleet uses: n steps, few of which fold.
func BigPlan(n int) plan.Plan {
	p := plan.Plan{Unchanged: Unchanged(n)}
	for i := 0; len(p.Steps) < n; i++ {
		label := fmt.Sprintf("label-%03d", i%97)
		provider := fmt.Sprintf("cloud-%02d", i%20)
		gone := Delete(i, label, plan.ReasonMaxReadyAge, plan.Fact{Name: "age", Value: fmt.Sprintf("8h%dm0s", i%60)}, plan.Fact{Name: "max_ready_age", Value: "8h0m0s"})
		made := Launch(label, i)
		gone.Provider, made.Provider = provider, provider
		p.Steps = append(p.Steps, gone, made)
		if i%10 == 0 {
			p.Steps = append(p.Steps, Build(fmt.Sprintf("image-%04d", i)), Upload(fmt.Sprintf("image-%04d", i), provider, 4))
		}
	}
	p.Steps = p.Steps[:n]
	return p
}

// DrawPlan draws plans with colliding names, incomplete replacements and arbitrary texts.
func DrawPlan(t *rapid.T) plan.Plan {
	var p plan.Plan
	name := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", HostileName}), rapid.StringN(0, 12, 40))
	facts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plan.Fact { return plan.Fact{Name: name.Draw(t, "name"), Value: name.Draw(t, "value")} }), 0, 3)
	changes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plan.Change {
		return plan.Change{Attribute: name.Draw(t, "attribute"), Before: name.Draw(t, "before"), After: name.Draw(t, "after"), Forces: rapid.Bool().Draw(t, "forces")}
	}), 0, 3)
	kinds := rapid.Map(rapid.SampledFrom(plan.Kinds()), func(k plan.Kind) plan.Kind { return plan.Kind{Action: k.Action, Thing: k.Thing} })
	for i := range rapid.IntRange(0, 40).Draw(t, "steps") {
		s := plan.Step{ID: fmt.Sprint("step ", i), Address: plan.Address(name.Draw(t, "address")), Kind: kinds.Draw(t, "kind"),
			Reason:   rapid.SampledFrom([]plan.Reason{plan.ReasonLeaked, plan.ReasonNoBuild, "unheard-of"}).Draw(t, "reason"),
			Evidence: facts.Draw(t, "evidence"), Changes: changes.Draw(t, "changes"),
			Image: name.Draw(t, "image"), Build: name.Draw(t, "build"), Format: name.Draw(t, "format"), Provider: name.Draw(t, "provider"),
			Pool: name.Draw(t, "pool"), Label: name.Draw(t, "label"), Node: name.Draw(t, "node"), Slot: rapid.Int64Range(0, 2).Draw(t, "slot"),
			Record:   resources.Key{Kind: rapid.SampledFrom(resources.Kinds()).Draw(t, "record kind"), ID: name.Draw(t, "record")},
			External: name.Draw(t, "external"), Type: name.Draw(t, "type"), Replaces: rapid.Bool().Draw(t, "replaces"),
			Estimate: rapid.Float64Range(0, 1e6).Draw(t, "estimate"), Source: resources.Source{File: name.Draw(t, "file"), Line: rapid.IntRange(0, 9).Draw(t, "line")}}
		if s.Replaces && rapid.Bool().Draw(t, "moves") {
			s.Move = &plan.Move{Node: name.Draw(t, "moved"), From: plan.NodePlacement{Provider: name.Draw(t, "from")}, To: plan.NodePlacement{Provider: s.Provider, Pool: s.Pool, Flavor: name.Draw(t, "flavor")}}
		}
		if i > 0 && rapid.Bool().Draw(t, "waits") {
			s.Needs = []string{fmt.Sprint("step ", rapid.IntRange(0, i-1).Draw(t, "need"))}
		}
		p.Steps = append(p.Steps, s)
	}
	plan.RestoreKinds(p.Steps)
	p.Unchanged = unchangedOf(rapid.SliceOfN(name, 0, 5).Draw(t, "unchanged"))
	p.Deferred = rapid.SliceOfN(name, 0, 3).Draw(t, "deferred")
	if rapid.Bool().Draw(t, "prices") {
		p.Least = Least(name.Draw(t, "label of"))
		p.Cost = Cost(name.Draw(t, "cost of"), rapid.Float64Range(0, 1e6).Draw(t, "euros"))
	}
	p.Notes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plan.Note {
		return plan.Note{Severity: rapid.SampledFrom([]plan.Severity{plan.Info, plan.Warning}).Draw(t, "severity"), Code: name.Draw(t, "code"), Address: plan.Address(name.Draw(t, "address")), Text: name.Draw(t, "text")}
	}), 0, 30).Draw(t, "notes")
	p.Problems = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plan.Problem {
		return plan.Problem{Address: plan.Address(name.Draw(t, "address")), Provider: name.Draw(t, "provider"), Text: name.Draw(t, "text"), Hint: name.Draw(t, "hint")}
	}), 0, 3).Draw(t, "problems")
	return p
}

// Meta returns the origin of the sample plan.
func Meta() plan.Meta {
	return plan.Meta{NpctlVersion: "0.1.0", Lineage: "7d0f9f6e-3c1b-4b52-9d2c-1a1f6f0f8f11", Serial: 4711, Digest: "sha256:00ff",
		Created: Now, Options: plan.Options{Targets: []plan.Address{"provider.vexxhost"}, AllowDestroy: plan.AllowNodes}}
}

// EveryField returns a plan in which each field of a step has a value, so that a new field is not forgotten here.
func EveryField(t testing.TB) plan.Plan {
	t.Helper()
	p := Plan()
	s := Replace(1)[0]
	value := reflect.ValueOf(&s).Elem()
	for i := range value.NumField() {
		switch f := value.Field(i); {
		case !f.IsZero():
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.CanInt():
			f.SetInt(3)
		case f.CanFloat():
			f.SetFloat(1.5)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Type() == reflect.TypeFor[[]string]():
			f.Set(reflect.ValueOf([]string{"x"}))
		case value.Type().Field(i).Name == "Files":
			s.Files = []plan.FileChange{{Path: "files/motd", Change: plan.FileChanged}}
		case value.Type().Field(i).Name == "Declined":
			s.Declined = []resources.Decline{{Provider: "one", Pool: "main", Reason: "x"}}
		case value.Type().Field(i).Name == "Values":
			s.Values = map[string]string{"flavor": `"small"`, "networks": `["private"]`, "volume_size": "80"}
		case value.Type().Field(i).Name == "Move":
			s.Move = &plan.Move{Node: "0000000001", From: plan.NodePlacement{Provider: "west", Pool: "main", Flavor: "large"}, To: plan.NodePlacement{Provider: "east", Pool: "main", Flavor: "small"}}
		case value.Type().Field(i).Name == "Source":
			s.Source = source(3)
		default:
			t.Fatalf("add a value for %s here", value.Type().Field(i).Name)
		}
	}
	p.Steps = append(p.Steps, s)
	return p
}

// Effect has every part of an effect.
func Effect() plan.Effect {
	p := Plan()
	at := func(line int) resources.Source { return resources.Source{File: "main.hcl", Line: line} }
	launch := Launch("debian-small", 0)
	launch.Changes = []plan.Change{{Attribute: "flavor", Before: `"small"`, After: `"large"`}}
	return plan.Effect{Against: "HEAD^1", Common: 7, Differences: []resources.Difference{
		{Address: "diskimage.debian", Attribute: plan.InputFiles, After: "files/motd (changed)", Class: "replacing", Source: at(3)},
		{Address: "label.debian-small", Attribute: "min_ready", Before: "1", After: "2", Class: "in place", Source: at(9)},
		{Address: "label.new", Block: resources.BlockAdded, Source: at(12)},
		{Address: "provider.old", Block: resources.BlockRemoved, Source: at(20)},
		{Address: "provider.vexxhost.pool.main", Attribute: "max_servers", Before: "5", Class: "in place", Source: at(30)},
	}, Added: p.Steps, Dropped: []plan.Step{Upload("debian", "ovh", 3)}, Altered: []plan.Step{launch},
		Problems: p.Problems, CommonProblems: []plan.Problem{{Text: "x"}}, Notes: p.Notes, Deferred: p.Deferred, Cost: costChange("", 0.042, 0.084), Least: p.Least}
}

// costChange is a change of the price of all nodes.
func costChange(name string, before, after float64) plan.CostChange {
	c := plan.CostChange{Before: Cost(name, before), After: Cost(name, after)}
	c.After.WithoutPrice[0].MinReady++
	pairs := func(was, is []resources.CostLine) (all []plan.CostDifference) {
		for i := range is {
			all = append(all, plan.CostDifference{Provider: is[i].Provider, Label: is[i].Label, Currency: is[i].Currency, Before: was[i].CostRates,
				After: is[i].CostRates, Difference: is[i].Minus(was[i].CostRates)})
		}
		return all
	}
	c.Totals, c.Labels = pairs(c.Before.Totals, c.After.Totals), pairs(c.Before.Labels, c.After.Labels)
	return c
}

// DrawEffect draws an effect with hostile names.
func DrawEffect(t *rapid.T) plan.Effect {
	p, q := DrawPlan(t), DrawPlan(t)
	e := plan.Effect{Added: p.Steps, Dropped: q.Steps, Altered: q.Steps, Notes: p.Notes, Problems: p.Problems, Deferred: p.Deferred, Common: len(q.Notes), Least: p.Least}
	if !p.Cost.IsZero() {
		e.Cost = costChange(p.Cost.Labels[0].Provider, 1, rapid.Float64Range(0, 2).Draw(t, "price"))
	}
	for range rapid.IntRange(0, 30).Draw(t, "differences") {
		e.Differences = append(e.Differences, resources.Difference{Address: rapid.String().Draw(t, "address"), Attribute: rapid.String().Draw(t, "attribute"),
			Before: rapid.SampledFrom([]string{"", "```\n@all <b>", "\x1b[31m", "|"}).Draw(t, "before"), After: rapid.String().Draw(t, "after")})
	}
	return e
}
