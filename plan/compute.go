package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Compute returns the plan. It does no I/O and reads no clock: its arguments are its only input.
func Compute(want resources.Desired, seen Observed, opt Options) Plan {
	declared := want
	seen = markLockHolderBusy(withoutRelocated(seen))
	if opt.Destroy {
		want = resources.Desired{Settings: want.Settings, Digests: want.Digests}
	}
	c := &computation{want: want, declared: declared, seen: seen, opt: opt, world: newWorld(declared, want, seen), index: map[string]int{},
		replaceAddresses: map[Address]bool{}, updatedRecords: map[resources.Key]bool{}, poolHasWaiters: map[poolKey]bool{}}
	for _, a := range opt.Replace {
		c.replaceAddresses[a] = false
	}
	c.world.withPeers(seen.RegisteredPools, seen.Frozen)
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
	c.leaks()
	c.noteForeignResources()
	c.unknownFiles()
	c.forgetProviders()
	c.protections()
	c.unknownReplace()
	return c.finish()
}

// computation is one run of Compute.
type computation struct {
	want             resources.Desired // without objects if everything is to be deleted
	declared         resources.Desired // the whole configuration
	seen             Observed
	opt              Options
	world            *inventory
	steps            []Step
	index            map[string]int // step ID → index in steps
	notes            []Note
	problems         []Problem
	unremovable      []Problem // of Options.Remove
	deferred         []string
	kept             Unchanged        // including nodes that a later decision may delete
	replaceAddresses map[Address]bool // -replace addresses, and whether an object matches

	pools           map[poolKey]*poolUse
	free            map[string]*resources.ResourceAmounts // by provider: the remaining quota
	poolHasWaiters  map[poolKey]bool                      // pools that requests wait for
	readyCount      map[string]int                        // label → nodes that count towards min_ready
	replacedNodes   map[string][]*replacedNode            // label → nodes to be replaced
	plannedUploads  map[imageAt]string                    // upload steps by image and provider
	loginUpdates    map[resources.Key]string              // uploads with a changed login, and the step that records it
	replacedUploads map[resources.Key]bool                // uploads that -replace names, deleted after their successors are ready
	deletedBy       map[resources.Key]string              // record → ID of the step that removes it
	stateOutdated   bool                                  // the state is older than the clouds, and leaks are kept
	postponedNodes  map[string]string                     // unfinished node → why its launch is postponed
	updatedRecords  map[resources.Key]bool                // records that a step updates
}

type imageAt struct{ image, provider string }

// add appends a step, unless the plan already contains it, and returns its ID.
func (c *computation) add(s Step) string {
	if s.ID == "" {
		s.ID = string(s.Action) + " " + string(s.Address)
	}
	if _, twice := c.index[s.ID]; twice {
		return s.ID
	}
	if c.busy(s.Record) {
		return s.ID // a step that needs it waits for the running work on the record
	}
	if s.Image != "" {
		s.ImageKind = c.imageKind(s.Image)
	}
	if r := c.world.requests[s.Request]; r != nil {
		s.EventID = r.EventID
	}
	if s.Action == ActionUpdate {
		c.updatedRecords[s.Record] = true
	}
	if s.Record.Kind != "" {
		s.Preconditions = append(s.Preconditions, c.fingerprint(s.Record))
	}
	c.index[s.ID] = len(c.steps)
	c.steps = append(c.steps, s)
	if s.Removes() || s.Action == ActionForget {
		if c.deletedBy == nil {
			c.deletedBy = map[resources.Key]string{}
		}
		if s.Record.Kind != "" {
			c.deletedBy[s.Record] = s.ID
		}
	}
	return s.ID
}

// imageKind returns the block type of an image. Its builds keep the type after the block is removed.
func (c *computation) imageKind(name string) resources.ImageKind {
	if img := c.world.images[name]; img != nil {
		return img.Kind
	}
	if builds := c.world.builds[name]; len(builds) > 0 {
		return builds[0].Kind
	}
	return ""
}

// busy reports whether a running step or another process works on the record.
func (c *computation) busy(key resources.Key) bool {
	return key.Kind != "" && (c.seen.Busy[key] || c.seen.ForeignClaims[key])
}

func (c *computation) step(id string) *Step { return &c.steps[c.index[id]] }

func (c *computation) note(severity Severity, code string, at Address, source resources.Source, format string, args ...any) {
	c.notes = append(c.notes, Note{Severity: severity, Code: code, Address: at, Source: source,
		Text: fmt.Sprintf(format, args...)})
}

// because returns the reason, or ReasonDestroy if everything is to be deleted.
func (c *computation) because(r Reason) Reason {
	if c.opt.Destroy {
		return ReasonDestroy
	}
	return r
}

// isReplaceTarget reports whether -replace names one of the addresses.
func (c *computation) isReplaceTarget(addresses ...Address) bool {
	found := false
	for _, a := range addresses {
		if _, ok := c.replaceAddresses[a]; ok {
			c.replaceAddresses[a] = true
			found = true
		}
	}
	return found
}

func (c *computation) unknownReplace() {
	for _, a := range c.opt.Replace {
		if !c.replaceAddresses[a] {
			c.problems = append(c.problems, Problem{Address: a, Text: "no object that can be replaced has this address",
				Hint: "images are diskimage.NAME or zuul_image.NAME, uploads provider.NAME.image.IMAGE, nodes node.ID; see npctl state list"})
		}
	}
}

// view returns the observed state of the provider. looked is false if it did not respond, was not queried, or is
// frozen.
func (c *computation) view(provider string) (view *ProviderView, looked bool) {
	if view, looked = c.world.views[provider]; looked {
		return view, true
	}
	return &ProviderView{}, false
}

// reachable reports whether the provider may have steps: it responded, or was deliberately not queried.
func (c *computation) reachable(provider string) bool {
	if _, looked := c.view(provider); looked {
		return true
	}
	if c.world.isForeign(provider) {
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
					Hint:   "fix it, or omit the provider with -exclude=" + string(ProviderAddress(name)),
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

func (c *computation) finish() Plan {
	c.steps = c.withoutFailing(c.steps)
	p := Plan{Steps: c.steps, Notes: c.notes, Problems: c.problems, Unchanged: c.unchanged(), Deferred: c.deferred, InProgress: c.seen.LockHolder, Waiting: c.waiting()}
	if len(c.opt.Remove) > 0 {
		p.Problems = c.unremovable // other problems do not prevent a removal
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

// imageAddress returns the address of an image block.
func imageAddress(kind resources.ImageKind, name string) Address {
	return Address(string(kind) + "." + name)
}

// ProviderAddress returns the address of a provider block.
func ProviderAddress(name string) Address { return Address("provider." + name) }
func nodeAddress(id string) Address       { return Address("node." + id) }
func uploadAddress(provider, image string) Address {
	return ProviderAddress(provider) + Address(".image."+image)
}
func poolAddress(provider, pool string) Address {
	return ProviderAddress(provider) + Address(".pool."+pool)
}

// OfferAddress returns the address of a label block in a pool.
func OfferAddress(provider, pool, label string) Address {
	return poolAddress(provider, pool) + Address(".label."+label)
}

// estimate returns the median duration of the newest runs of a subject, in seconds; 0 without a history.
func (c *computation) estimate(subject string) float64 {
	i, found := slices.BinarySearchFunc(c.seen.Records.Histories, subject,
		func(h *resources.History, s string) int { return strings.Compare(h.Subject, s) })
	if !found || len(c.seen.Records.Histories[i].Seconds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.seen.Records.Histories[i].Seconds))
	return sorted[len(sorted)/2]
}
