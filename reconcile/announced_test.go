package reconcile_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// TestPlanAnnouncesEveryCallToTheCloud applies random configurations, with several providers and pools for each
// label, limits, priorities, requests, replacements and providers that do not respond. The text, the Markdown and the
// JSON of each plan must announce exactly the requests that the clouds receive: their number, placement and attributes.
func TestPlanAnnouncesEveryCallToTheCloud(t *testing.T) {
	supplies := 0
	for _, seed := range testutil.Seeds(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { supplies += announced(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
	if supplies == 0 {
		t.Error("no plan took a ready node or upload")
	}
	t.Logf("%d least numbers were compared", supplies)
}

// announced returns how many least numbers of ready nodes and uploads it has compared.
func announced(t *testing.T, random *rand.Rand) (supplies int) {
	options := emulator.Options{BuildTime: 5 * time.Second, DeleteTime: time.Second,
		Networks: []emulator.Network{{Name: "second", CIDRs: []string{"127.78.0.0/16"}}}}
	l := newLab(t, "", options)
	cloud, err := emulator.Open(options)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = cloud.Close() })
	l.driver.Clouds["three"] = cloud
	f := drawFleet(random)
	for range 5 {
		l.driver.asked = &asked{seen: map[string]bool{}}
		l.config = f.text()
		for range random.IntN(3) {
			l.request(t, random)
		}
		l.silence(t, random)
		p, _, err := l.run(t.Context(), plan.Options{Replace: l.someNode(random)})
		if len(p.Problems) > 0 { // the pool no longer offers the label of the node, or its provider does not respond
			p, _, err = l.run(t.Context(), plan.Options{})
		}
		l.behave(t)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, l.config, text(p))
		}
		l.compare(t, p)
		if t.Failed() {
			t.Fatalf("the configuration was%s", l.config)
		}
		f.change(random)
		time.Sleep(time.Minute)
	}
	return l.supplies
}

// silence occasionally makes a cloud unavailable.
func (l *lab) silence(t *testing.T, random *rand.Rand) {
	t.Helper()
	for _, name := range []string{"one", "two", "three"} {
		if random.IntN(8) > 0 {
			continue
		}
		testutil.Must(t, l.driver.Clouds[name].SetFaults(emulator.Fault{Operation: "*", Action: emulator.Answer, Status: 503}))
	}
}

// request creates a request for a node of one or both labels.
func (l *lab) request(t *testing.T, random *rand.Rand) {
	t.Helper()
	store, err := bolt.Open(bolt.Options{Path: l.dir + "/npctl.db"})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // a test's
	r := &resources.Request{State: resources.StateRequested, StateTime: time.Now(), Created: time.Now(), Labels: []string{"a", "b"}[random.IntN(2):]}
	if _, err := store.Commit(t.Context(), state.Op{Record: r}); err != nil {
		t.Fatal(err)
	}
}

// someNode occasionally returns the address of a node to replace.
func (l *lab) someNode(random *rand.Rand) []plan.Address {
	if random.IntN(3) > 0 {
		return nil
	}
	for _, n := range l.nodes() {
		if n.State == resources.StateReady && n.Request == "" {
			return []plan.Address{plan.Address("node." + n.ID)}
		}
	}
	return nil
}

// fleet is a random configuration.
type fleet struct {
	built     int // changes with the content of the image
	minReady  map[string]int
	budgets   map[string]string // max of disruption blocks, by label
	providers []*fleetProvider
}

type fleetProvider struct {
	name       string
	priority   int
	visibility string
	pools      []*fleetPool
}

type fleetPool struct {
	name     string
	priority int // 0: no priority of its own
	max      int // 0: no limit
	offers   map[string]*fleetOffer
}

type fleetOffer struct {
	flavor, network, zone string
	floating              bool
}

var fleetLabels = []string{"a", "b"}

func pick(random *rand.Rand, from ...string) string { return from[random.IntN(len(from))] }

func drawFleet(random *rand.Rand) *fleet {
	f := &fleet{minReady: map[string]int{}, budgets: map[string]string{}}
	for _, label := range fleetLabels {
		f.minReady[label] = 1 + random.IntN(3)
		f.budgets[label] = pick(random, "100%", "1", "50%")
	}
	for _, name := range []string{"one", "two", "three"}[:2+random.IntN(2)] {
		p := &fleetProvider{name: name, priority: 50 * random.IntN(3), visibility: pick(random, "private", "shared")}
		for _, pool := range []string{"main", "spare"}[:1+random.IntN(2)] {
			p.pools = append(p.pools, &fleetPool{name: pool, offers: map[string]*fleetOffer{}})
			p.pools[len(p.pools)-1].draw(random)
		}
		f.providers = append(f.providers, p)
	}
	return f
}

func (p *fleetPool) draw(random *rand.Rand) {
	p.max, p.priority = random.IntN(4), 25*random.IntN(5)
	for _, label := range fleetLabels {
		delete(p.offers, label)
		if random.IntN(5) > 0 {
			p.offers[label] = &fleetOffer{flavor: pick(random, "small", "medium", "large"), network: pick(random, "private", "second"),
				zone: pick(random, "", "az1", "az2"), floating: random.IntN(4) == 0}
		}
	}
}

// change changes a part of the fleet, mostly the offers of one pool.
func (f *fleet) change(random *rand.Rand) {
	if random.IntN(3) == 0 {
		f.built++
	}
	f.minReady[pick(random, fleetLabels...)] = random.IntN(4)
	p := f.providers[random.IntN(len(f.providers))]
	p.priority = 50 * random.IntN(3)
	for range 2 {
		p := f.providers[random.IntN(len(f.providers))]
		pool := p.pools[random.IntN(len(p.pools))]
		if random.IntN(4) == 0 {
			pool.draw(random)
		}
		for _, o := range pool.offers {
			o.flavor = pick(random, "small", "medium", "large")
		}
		pool.max = random.IntN(4)
	}
}

func (f *fleet) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, `
diskimage "debian" {
  keep = 1
  builder "exec" {
    command = ["sh", "-c", "printf image%d >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
  properties = { built = "%d" }
}
`, f.built, f.built)
	for _, label := range fleetLabels {
		fmt.Fprintf(&b, "label %q {\n  min_ready = %d\n  disruption {\n    max = %q\n  }\n}\n", label, f.minReady[label], f.budgets[label])
	}
	for _, p := range f.providers {
		fmt.Fprintf(&b, "provider \"lab\" %q {\n  image_format = \"raw\"\n  priority = %d\n  image \"debian\" { visibility = %q }\n", p.name, p.priority, p.visibility)
		for _, pool := range p.pools {
			fmt.Fprintf(&b, "  pool %q {\n    host_key_checking = false\n", pool.name)
			if pool.max > 0 {
				fmt.Fprintf(&b, "    max_servers = %d\n", pool.max)
			}
			if pool.priority > 0 {
				fmt.Fprintf(&b, "    priority = %d\n", pool.priority)
			}
			for _, label := range fleetLabels {
				if o := pool.offers[label]; o != nil {
					b.WriteString(o.text(label))
				}
			}
			b.WriteString("  }\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func (o *fleetOffer) text(label string) string {
	text := fmt.Sprintf("    label %q {\n      image = diskimage.debian\n      flavor = %q\n      networks = [%q]\n", label, o.flavor, o.network)
	if o.zone != "" {
		text += fmt.Sprintf("      availability_zones = [%q]\n", o.zone)
	}
	if o.floating && o.network == "private" {
		text += "      auto_floating_ip = true\n"
	}
	return text + "    }\n"
}

// asked collects the objects requested from clouds. It contains each object once, even if the driver was called
// repeatedly.
type asked struct {
	mu   sync.Mutex // guards the fields below
	seen map[string]bool
	all  []string
}

func (a *asked) add(id, thing string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.seen[id] {
		a.seen[id] = true
		a.all = append(a.all, thing)
	}
}

// askedCloud records the requests that it receives.
type askedCloud struct {
	*openstack.Cloud
	provider string
	asked    *asked
}

func (c *askedCloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	zones := attribute(spec.Config, "availability_zones", `["az1","az2"]`)
	if !strings.Contains(zones, `"`+spec.Zone+`"`) {
		zones = "zone " + spec.Zone
	}
	c.asked.add(spec.Marks.ID, launchOf(c.provider, spec.Marks.Pool, spec.Marks.Label, spec.Marks.Image, attribute(spec.Config, "flavor", ""),
		attribute(spec.Config, "networks", ""), zones, attribute(spec.Config, "auto_floating_ip", "false")))
	return c.Cloud.Create(ctx, spec)
}

func (c *askedCloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	c.asked.add(id, "delete node in "+c.provider+": "+id)
	return c.Cloud.Delete(ctx, id, expected)
}

func (c *askedCloud) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	properties, _ := json.Marshal(spec.Properties)
	name := regexp.MustCompile(`\d+$`).ReplaceAllString(spec.Name, "{timestamp}")
	c.asked.add("upload "+spec.Marks.ID, uploadOf(c.provider, spec.Marks.Image, strconv.Quote(spec.Format), strconv.Quote(name), string(properties),
		attribute(spec.Config, "visibility", "")))
	return c.Cloud.UploadImage(ctx, spec, content)
}

func (c *askedCloud) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	c.asked.add(id, "delete image in "+c.provider)
	return c.Cloud.DeleteImage(ctx, id, expected)
}

func launchOf(provider, pool, label, image, flavor, networks, zones, floating string) string {
	return fmt.Sprintf("launch %s in %s/%s: image %s, flavor %s, networks %s, zones %s, floating IP %s", label, provider, pool,
		strings.Trim(image, `"`), flavor, networks, zones, floating)
}

func uploadOf(provider, image, format, name, properties, visibility string) string {
	return fmt.Sprintf("upload %s to %s: format %s, name %s, properties %s, visibility %s", image, provider, format, name, properties, visibility)
}

// attribute returns a value of the configuration as JSON.
func attribute(config cty.Value, name, otherwise string) string {
	value := config.GetAttr(name)
	if value.IsNull() {
		return otherwise
	}
	text, err := ctyjson.Marshal(value, value.Type())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// compare fails the test unless each rendering of the plan announces the requests that the clouds received.
func (l *lab) compare(t *testing.T, p plan.Plan) {
	t.Helper()
	want := l.driver.asked.all
	report, err := render.Report(p, plan.Meta{})
	testutil.Must(t, err)
	var text, markdown strings.Builder
	testutil.Must(t, render.Text(&text, p, render.TextOptions{Verbose: true}))
	testutil.Must(t, render.Markdown(&markdown, p, 0))
	same := func(what string, want, got []string, whole string) {
		want, got = slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s announces something else (-asked +announced):\n%s\n%s", what, diff, whole)
		}
	}
	same("JSON", want, announcedInJSON(t, report), string(report))
	same("the text", withoutIDs(want), announcedInText(text.String()), text.String())
	same("Markdown", withoutIDs(want), announcedInText(markdown.String()), markdown.String())
	same("the table", countsOf(want), countsInTable(markdown.String()), markdown.String())
}

// withoutIDs removes the IDs of servers, which folded entries do not show.
func withoutIDs(things []string) (short []string) {
	for _, thing := range things {
		if strings.HasPrefix(thing, "delete node") {
			thing, _, _ = strings.Cut(thing, ":")
		}
		short = append(short, thing)
	}
	return short
}

// announcedInJSON returns the announcements in the report.
func announcedInJSON(t *testing.T, report []byte) (things []string) {
	t.Helper()
	var doc struct {
		Steps []struct {
			Action, Thing, Provider, Pool, Label, Image string
			External                                    string                     `json:"external_id"`
			Values                                      map[string]json.RawMessage `json:"planned_values"`
		}
	}
	testutil.Must(t, json.Unmarshal(report, &doc))
	for _, s := range doc.Steps {
		value := func(name string) string { return string(s.Values[name]) }
		switch s.Action + " " + s.Thing {
		case "launch node":
			things = append(things, launchOf(s.Provider, s.Pool, s.Label, value("image"), value("flavor"), value("networks"),
				value("availability_zones"), cmp.Or(value("auto_floating_ip"), "false")))
		case "upload upload":
			things = append(things, uploadOf(s.Provider, s.Image, value("format"), value("name"), value("properties"), value("visibility")))
		case "delete node":
			things = append(things, "delete node in "+s.Provider+": "+s.External)
		case "delete upload":
			things = append(things, "delete image in "+s.Provider)
		}
	}
	return things
}

var (
	launchLine       = regexp.MustCompile(`^\s*\+ (\d+) nodes? (\S+) in ([^/ ]+)/([^/, ]+)`)
	moveLine         = regexp.MustCompile(`^\s*\+ move (?:node \d+|(\d+) nodes) (\S+) from \S+ \(\S+\) to ([^/ ]+)/([^/, ]+)`)
	replaceLine      = regexp.MustCompile(`^\s*(?:-/\+|\+/-) replace (?:node \d+|(\d+) nodes) (\S+) in ([^/ ]+)/([^/, ]+)`)
	deleteLine       = regexp.MustCompile(`^\s*- delete (?:node \d+|(\d+) nodes) (\S+) in ([^/ ]+)/([^/, ]+)`)
	uploadLine       = regexp.MustCompile(`^\s*\+ upload (\S+) \(\w+\) to (.+?)(?:, about .*)?$`)
	deleteUploadLine = regexp.MustCompile(`^\s*- delete upload \d+ of \S+ in ([^, ]+)`)
	deleteManyLine   = regexp.MustCompile(`^\s*- delete \d+ uploads of`)
	uploadItem       = regexp.MustCompile(`\d{10} in ([^,\s]+)`)
)

// announcedInText returns the announcements in a text for people: the terminal output or Markdown.
func announcedInText(text string) (things []string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		many := func(m []string, thing string) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				n = 1
			}
			things = append(things, slices.Repeat([]string{thing}, n)...)
		}
		values := func() map[string]string { return valuesUnder(lines[i+1:]) }
		launch := func(m []string) string {
			v := values()
			return launchOf(m[3], m[4], m[2], v["image"], v["flavor"], v["networks"], v["availability_zones"], cmp.Or(v["auto_floating_ip"], "false"))
		}
		if m := launchLine.FindStringSubmatch(line); m != nil {
			many(m, launch(m))
		} else if m := moveLine.FindStringSubmatch(line); m != nil {
			many(m, launch(m))
		} else if m := replaceLine.FindStringSubmatch(line); m != nil {
			many(m, launch(m))
			many(m, "delete node in "+m[3])
		} else if m := deleteLine.FindStringSubmatch(line); m != nil {
			many(m, "delete node in "+m[3])
		} else if m := uploadLine.FindStringSubmatch(line); m != nil {
			v := values()
			for provider := range strings.FieldsFuncSeq(strings.ReplaceAll(m[2], " and ", ","), func(r rune) bool { return r == ',' || r == ' ' }) {
				things = append(things, uploadOf(provider, m[1], v["format"], v["name"], v["properties"], v["visibility"]))
			}
		} else if m := deleteUploadLine.FindStringSubmatch(line); m != nil {
			things = append(things, "delete image in "+m[1])
		} else if deleteManyLine.MatchString(line) {
			for _, item := range uploadItem.FindAllStringSubmatch(strings.Join(lines[i+1:min(i+4, len(lines))], "\n"), -1) {
				things = append(things, "delete image in "+item[1])
			}
		}
	}
	return things
}

var plannedValue = regexp.MustCompile(`(\w+) ("[^"]*"|\[[^\]]*\]|\{[^}]*\}|[\w.]+)(?:, |$)`)

// valuesUnder returns the planned values in the details of an entry.
func valuesUnder(details []string) map[string]string {
	values := map[string]string{}
	for _, line := range details[:min(len(details), 4)] {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), "with ")
		if !found {
			continue
		}
		for _, m := range plannedValue.FindAllStringSubmatch(rest, -1) {
			values[m[1]] = m[2]
		}
		break
	}
	return values
}

// countsOf returns the number of launches and node deletions in each provider.
func countsOf(things []string) (counts []string) {
	n := map[string]int{}
	for _, thing := range things {
		if m := regexp.MustCompile(`^(launch|delete) \S+ in ([^/:]+)`).FindStringSubmatch(thing); m != nil && !strings.HasPrefix(thing, "delete image") {
			n[m[1]+" in "+m[2]]++
		}
	}
	for what, many := range n {
		counts = append(counts, fmt.Sprintf("%d to %s", many, what))
	}
	return counts
}

// countsInTable reads these numbers from the table of the Markdown.
func countsInTable(markdown string) (counts []string) {
	var columns []string
	n := map[string]int{}
	for line := range strings.Lines(markdown) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		provider, row := strings.CutPrefix(cells[0], "`provider.")
		switch {
		case cells[0] == "block":
			columns = cells
		case row && len(cells) == len(columns):
			for i, cell := range cells {
				many, _ := strconv.Atoi(cell)
				for _, action := range map[string][]string{"launch": {"launch"}, "delete": {"delete"}, "replace": {"launch", "delete"}}[columns[i]] {
					n[action+" in "+strings.Trim(provider, "`")] += many
				}
			}
		}
	}
	for what, many := range n {
		if many > 0 {
			counts = append(counts, fmt.Sprintf("%d to %s", many, what))
		}
	}
	return counts
}
