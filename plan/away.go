package plan

import (
	"slices"

	"github.com/npctl/npctl/resources"
)

// A provider that does not answer says nothing about what it was asked for. So that uses up no attempt of a node: its launch is
// put off, for longer each time (see breaker), and a request waits for its nodes until its deadline, unless another pool
// can serve it now. Nodes that no request waits for are given up where nothing is known to be made of them yet and another
// provider has the label, so that min_ready is met there.

// stuck says why a pending request gets no further where it is, or nothing.
func (d *dispatch) stuck(r *resources.Request, nodes []string) string {
	view, asked := d.seen.Providers[r.Place.Provider]
	silent := asked && view.Err != "" && !d.seen.Frozen[r.Place.Provider]
	for _, id := range nodes {
		switch n := d.world.node[id]; {
		case n == nil || n.State == resources.StateReady || d.busy(n.Key()):
		case d.putOff[id] != "":
			return d.putOff[id]
		case silent:
			return "the provider does not answer"
		}
	}
	return ""
}

// moveOn gives up the pool that has taken a request, if another one can serve it now. The nodes that it leaves are nobody's
// then.
func (d *dispatch) moveOn(r *resources.Request, why string) bool {
	again := *r
	again.State, again.Place = resources.StateRequested, resources.Place{}
	if !d.servedElsewhere(&again, poolKey{r.Place.Provider, r.Place.Pool}) {
		return false
	}
	d.add(restartStep(r, ReasonUnavailable, Fact{r.Place.Provider + "/" + r.Place.Pool, why}))
	return true
}

// offeredElsewhere reports whether another provider has the same label, and nothing is known to be wrong there.
func (c *computation) offeredElsewhere(here *place) bool {
	return slices.ContainsFunc(c.world.sites, func(s *site) bool {
		if s.at.provider == here.at.provider || !c.reachable(s.at.provider) {
			return false
		}
		at := c.placeOf(s, here.offer.Label)
		return at != nil && len(at.problems) == 0 && c.breaker(at) == ""
	})
}

// servedElsewhere reports whether a pool of another provider can serve a request now, and counts what that takes. What room
// the pools of other processes have is theirs to know.
func (d *dispatch) servedElsewhere(r *resources.Request, here poolKey) bool {
	var options []*option
	if d.seen.Shared {
		options, _ = d.sharedOptions(r)
	} else {
		options, _ = d.options(r)
	}
	i := slices.IndexFunc(options, func(o *option) bool { return o.at.provider != here.provider && o.full == nil })
	if i >= 0 {
		d.take(options[i])
		return true
	}
	return d.seen.Shared && slices.ContainsFunc(d.candidates(r), func(p *resources.Peer) bool { return !p.Own && !p.Paused && p.Provider != here.provider })
}
