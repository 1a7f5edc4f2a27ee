package metastatic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Unneeded implements drivers.NodeUser.
func (c *Cloud) Unneeded(ctx context.Context, offers []cty.Value) ([]resources.UnneededNode, error) {
	f, err := c.fleet(ctx)
	if err != nil {
		return nil, err
	}
	settings := map[string]labelSettings{}
	for _, config := range offers {
		if s, err := settingsOf(config); err == nil {
			settings[s.BackingLabel] = s
		}
	}
	now := c.now()
	var unneeded []resources.UnneededNode
	for _, id := range slices.Sorted(maps.Keys(f.backing)) {
		b := f.backing[id]
		s, configured := b.settings(settings)
		if why := b.unneeded(s, configured, now); why != "" {
			unneeded = append(unneeded, resources.UnneededNode{Request: b.request, Node: b.nodeID, Label: label(b.labels), Why: why})
		}
	}
	return unneeded, nil
}

// settings returns the settings for a label of the backing node.
func (b *backing) settings(byLabel map[string]labelSettings) (s labelSettings, configured bool) {
	for _, name := range b.labels {
		if s, configured = byLabel[name]; configured {
			return s, true
		}
	}
	return s, false
}

// unneeded returns why the provider no longer needs the backing node, or "". configured reports whether an offer uses its
// label.
func (b *backing) unneeded(s labelSettings, configured bool, now time.Time) string {
	waits := b.state == resources.StateRequested || b.state == resources.StateFulfilled
	if len(b.slots) > 0 || !waits && b.state != resources.StateInUse {
		return "" // a pending request is served first, so that the launch of its node is not lost
	}
	age, idle := now.Sub(b.created), now.Sub(b.idleSince())
	switch {
	case !configured:
		return "no label has it as backing_label"
	case b.isRetired():
		return "a slot on it did not answer, or its cloud reported that it was not ready"
	case b.node != nil && s.MaxAge > 0 && age >= s.MaxAge:
		return fmt.Sprintf("its age %s exceeds max_age %s", round(age), s.MaxAge)
	case b.node != nil && age < s.MinRetentionTime || idle < s.GraceTime:
		return ""
	default:
		return fmt.Sprintf("it has had no slot for %s, grace_time is %s", round(idle), s.GraceTime)
	}
}

// idleSince returns since when no slot is used.
func (b *backing) idleSince() time.Time {
	if b.node != nil && b.node.IdleSince.After(b.since) {
		return b.node.IdleSince
	}
	return b.since
}

func (b *backing) isRetired() bool { return b.node != nil && b.node.Retired }

func round(d time.Duration) time.Duration { return d.Round(time.Second) }

// Unreachable implements drivers.NodeUser: the backing node gets no more slots.
func (c *Cloud) Unreachable(ctx context.Context, id string) error {
	s, _ := parseSlot(id)
	return c.env.Nodes.Retire(ctx, s.request)
}

// ReturnNode implements drivers.NodeUser.
func (c *Cloud) ReturnNode(ctx context.Context, request string) error {
	done, err := c.takeTurn(ctx)
	if err != nil {
		return drivers.Unsent(err)
	}
	defer done()
	f, err := c.fleet(ctx)
	if err != nil {
		return drivers.Unsent(err)
	}
	if b := f.backing[request]; b != nil && len(b.slots) > 0 {
		return drivers.Unsent(fmt.Errorf("the backing node of request %s has slots: %w", request, drivers.ErrInUse))
	}
	return c.env.Nodes.Return(ctx, request)
}
