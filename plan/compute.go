package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Compute decides what has to happen. It does no I/O and asks no clock; everything it may know is in its arguments.
func Compute(want resources.Desired, seen Observed, opt Options) Plan {
	declared := want
	seen = besideWorker(withoutMoved(seen))
	if opt.Destroy {
		want = resources.Desired{Settings: want.Settings, Digests: want.Digests}
	}
	c := &computation{want: want, declared: declared, seen: seen, opt: opt, world: newWorld(declared, want, seen), index: map[string]int{},
		requested: map[Address]bool{}, changing: map[resources.Key]bool{}, crowded: map[poolKey]bool{}}
	for _, a := range opt.Replace {
		c.requested[a] = false
	}
	c.world.withPeers(seen.Peers, seen.Frozen)
	c.noteWorker()
	c.deferUnreachable()
	c.cloudProblems()
	c.nodes()
	c.staticNodes()
	c.removals()
	c.images()
	c.free = c.freeQuota()
	c.requests()
	c.launches()
	c.strays()
	c.foreigners()
	c.unknownFiles()
	c.forgetProviders()
	c.protections()
	c.unknownReplace()
	return c.finish()
}

// computation is one run of Compute.
type computation struct {
	want        resources.Desired // nothing when everything is to be destroyed
	declared    resources.Desired // what the configuration says all the same
	seen        Observed
	opt         Options
	world       *world
	steps       []Step
	index       map[string]int // step ID → place in steps
	notes       []Note
	problems    []Problem
	unremovable []Problem // with what Options.Remove names
	deferred    []string
	unchanged   []Address // those of nodes may be dismissed later
	dismissed   map[Address]bool
	requested   map[Address]bool // -replace addresses, and whether something answered to them

	pools    map[poolKey]*poolUse
	free     map[string]*resources.Amounts // by provider: what quotas leave
	crowded  map[poolKey]bool              // pools that requests wait for
	usable   map[string]int                // label → nodes that count towards min_ready
	retired  map[string][]*retiredNode     // label → delete steps of nodes to be replaced
	coming   map[imageAt]string            // upload steps by image and provider
	relogin  map[resources.Key]string      // uploads with another login from now on, and the step that records it
	renewed  map[resources.Key]bool        // uploads that -replace names: they go once their successors are there
	doomed   map[resources.Key]string      // record → ID of the step that removes it
	old      bool                          // the state is older than the clouds, and leaks are left alone
	putOff   map[string]string             // node on its way → why nothing is done for it now
	changing map[resources.Key]bool        // records that a step brings up to date
}

type imageAt struct{ image, provider string }

// add appends a step, unless the same one is there already, and returns its ID.
func (c *computation) add(s Step) string {
	if s.ID == "" {
		s.ID = string(s.Action) + " " + string(s.Address)
	}
	if _, twice := c.index[s.ID]; twice {
		return s.ID
	}
	if c.busy(s.Record) {
		return s.ID // whoever waits for it waits for what is being done with the record
	}
	if s.Image != "" {
		s.ImageKind = c.imageKind(s.Image)
	}
	if r := c.world.requests[s.Request]; r != nil {
		s.EventID = r.Event
	}
	if s.Action == ActionUpdate {
		c.changing[s.Record] = true
	}
	if s.Record.Kind != "" {
		s.Touches = append(s.Touches, c.fingerprint(s.Record))
	}
	c.index[s.ID] = len(c.steps)
	c.steps = append(c.steps, s)
	if s.Removes() || s.Action == ActionForget {
		if c.doomed == nil {
			c.doomed = map[resources.Key]string{}
		}
		if s.Record.Kind != "" {
			c.doomed[s.Record] = s.ID
		}
	}
	return s.ID
}

// imageKind is the block type of an image, which its builds remember when the block is gone.
func (c *computation) imageKind(name string) resources.ImageKind {
	if img := c.world.images[name]; img != nil {
		return img.Kind
	}
	if builds := c.world.builds[name]; len(builds) > 0 {
		return builds[0].Kind
	}
	return ""
}

// busy reports whether somebody works on the record: a running step, or another process.
func (c *computation) busy(key resources.Key) bool {
	return key.Kind != "" && (c.seen.Busy[key] || c.seen.Claimed[key])
}

func (c *computation) step(id string) *Step { return &c.steps[c.index[id]] }

func (c *computation) note(severity Severity, code string, at Address, source resources.Source, format string, args ...any) {
	c.notes = append(c.notes, Note{Severity: severity, Code: code, Address: at, Source: source,
		Text: fmt.Sprintf(format, args...)})
}

// because gives the reason, or that everything is to be destroyed.
func (c *computation) because(r Reason) Reason {
	if c.opt.Destroy {
		return ReasonDestroy
	}
	return r
}

// asked reports whether one of the addresses was named by -replace.
func (c *computation) asked(addresses ...Address) bool {
	found := false
	for _, a := range addresses {
		if _, ok := c.requested[a]; ok {
			c.requested[a] = true
			found = true
		}
	}
	return found
}

func (c *computation) unknownReplace() {
	for _, a := range c.opt.Replace {
		if !c.requested[a] {
			c.problems = append(c.problems, Problem{Address: a, Text: "nothing that could be replaced has this address",
				Hint: "images are diskimage.NAME, uploads provider.NAME.image.IMAGE, nodes node.ID; see npctl state list"})
		}
	}
}

// view returns what the provider showed. looked is false when it did not answer, was not asked, or is frozen.
func (c *computation) view(provider string) (view *ProviderView, looked bool) {
	if view, looked = c.world.views[provider]; looked {
		return view, true
	}
	return &ProviderView{}, false
}

// reachable reports whether steps may be planned for the provider: it answered, or was deliberately not asked.
func (c *computation) reachable(provider string) bool {
	if _, looked := c.view(provider); looked {
		return true
	}
	if c.world.others(provider) {
		return false
	}
	_, asked := c.seen.Providers[provider]
	return !asked && !c.seen.Frozen[provider]
}

func (c *computation) deferUnreachable() {
	for _, name := range c.world.names {
		if c.seen.Frozen[name] {
			c.note(Info, "frozen", ProviderAddress(name), c.source(name), "provider %s is frozen, so nothing is planned for it", name)
		} else if view := c.seen.Providers[name]; view.Err != "" {
			c.deferred = append(c.deferred, name)
			if view.Rejected && c.world.providers[name] != nil {
				c.problems = append(c.problems, Problem{Address: ProviderAddress(name), Provider: name, Text: view.Err,
					Hint:   "mend it, or leave the provider out with -exclude=" + string(ProviderAddress(name)),
					Source: c.source(name)})
				continue
			}
			c.note(Warning, "deferred", ProviderAddress(name), c.source(name),
				"provider %s could not be queried, so nothing is planned for it: %s", name, view.Err)
		}
	}
}

func (c *computation) source(provider string) resources.Source {
	if p := c.world.providers[provider]; p != nil {
		return p.Source
	}
	return resources.Source{}
}

// remaining lists what is as wanted, without nodes that were dismissed after all.
func (c *computation) remaining() []Address {
	left := slices.DeleteFunc(c.unchanged, func(at Address) bool { return c.dismissed[at] })
	slices.Sort(left)
	return slices.Compact(left)
}

func (c *computation) finish() Plan {
	c.steps = c.withoutFailing(c.steps)
	p := Plan{Steps: c.steps, Notes: c.notes, Problems: c.problems, Unchanged: c.remaining(), Deferred: c.deferred, InProgress: c.seen.Worker, Waiting: c.waiting()}
	if len(c.opt.Remove) > 0 {
		p.Problems = c.unremovable // whatever else is wrong does not stand in the way
	}
	if len(c.opt.Images) > 0 {
		p = c.onlyImages(p)
	}
	p = selectSteps(p, c.opt)
	wholeMoves(p.Steps)
	p = c.withConsent(p)
	p.Problems = append(p.Problems, forbidden(p.Steps, c.declared, c.seen.Records, c.opt)...)
	p.Steps = order(p.Steps)
	p.Notes = append(p.Notes, c.missingPrograms(p.Steps)...)
	return p
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Addresses of things.
func imageAddress(kind resources.ImageKind, name string) Address {
	return Address(string(kind) + "." + name)
}

// ProviderAddress is the address of a provider block.
func ProviderAddress(name string) Address { return Address("provider." + name) }
func nodeAddress(id string) Address       { return Address("node." + id) }
func uploadAddress(provider, image string) Address {
	return ProviderAddress(provider) + Address(".image."+image)
}
func poolAddress(provider, pool string) Address {
	return ProviderAddress(provider) + Address(".pool."+pool)
}

// OfferAddress is the address of a label block in a pool.
func OfferAddress(provider, pool, label string) Address {
	return poolAddress(provider, pool) + Address(".label."+label)
}

// estimate is the median of the newest runs of a subject, in seconds.
func (c *computation) estimate(subject string) float64 {
	i, found := slices.BinarySearchFunc(c.seen.Records.Histories, subject,
		func(h *resources.History, s string) int { return strings.Compare(h.Subject, s) })
	if !found || len(c.seen.Records.Histories[i].Seconds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.seen.Records.Histories[i].Seconds))
	return sorted[len(sorted)/2]
}
