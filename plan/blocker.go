package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// blocker is the reason why more nodes cannot be launched now, such as a limit. Its text is built on demand: the
// waits of most requests are never explained.
type blocker struct {
	text     string // if it is not a limit
	resource string
	one      string // the resource of a quota in the singular, if that is another word
	limit    int64  // the limit; of a quota: the amount left
	needed   int64  // the amount in use; of a quota: the amount needed
	quota    bool
}

// notListed is the blocker of a provider without a current listing.
var notListed = &blocker{text: "the provider could not be listed"}

// tooOld is the blocker of ready nodes that only an old listing shows.
var tooOld = &blocker{text: "the newest listing of the provider is too old to hand out its ready nodes"}

// notResponding is the blocker of a provider during an outage.
var notResponding = &blocker{text: "the provider does not respond"}

// frozen is the blocker of a frozen provider.
var frozen = &blocker{text: "the provider is frozen"}

func (l *blocker) String() string {
	switch {
	case l.text != "":
		return l.text
	case l.quota:
		return fmt.Sprintf("quota: %s left and %d needed", text.Count(max(l.limit, 0), cmp.Or(l.one, l.resource), l.resource), l.needed)
	default:
		return fmt.Sprintf("%s is %d and %d are taken", l.resource, l.limit, l.needed)
	}
}

// overLimits returns the limit that more nodes would exceed, or nil.
func overLimits(p *resources.Limits, use, more resources.ResourceAmounts) *blocker {
	over := func(limit *int64, use, more int64) bool { return limit != nil && more > 0 && use+more > *limit }
	for d := range resources.Dimension(len(resources.Dimensions)) {
		if limit := p.Of(d); over(limit, use.Of(d), more.Of(d)) {
			name := [...]string{"max_servers", "max_cores", "max_ram", "max_volumes", "max_volume_gb"}[d]
			return &blocker{resource: name, limit: *limit, needed: use.Of(d)}
		}
	}
	if len(more.Other) == 0 {
		return nil // most nodes, and each placement asks
	}
	for _, name := range slices.Sorted(maps.Keys(more.Other)) {
		if limit, ok := p.MaxResources[name]; ok && over(&limit, use.Other[name], more.Other[name]) {
			return &blocker{resource: fmt.Sprintf("max_resources[%q]", name), limit: limit, needed: use.Other[name]}
		}
	}
	return nil
}

// overQuota returns the quota that has too little left, or nil.
func overQuota(left, more resources.ResourceAmounts) *blocker {
	for d := range resources.Dimension(len(resources.Dimensions)) {
		if more.Of(d) > left.Of(d) {
			words := [...][2]string{{"instances", "instance"}, {"cores", "core"}, {"ram", ""}, {"volumes", "volume"}, {"volume_gb", ""}, {"floating IPs", "floating IP"}}[d]
			return &blocker{resource: words[0], one: words[1], limit: left.Of(d), needed: more.Of(d), quota: true}
		}
	}
	if len(more.Other) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(more.Other)) {
		if limit, ok := left.Other[name]; ok && more.Other[name] > limit {
			return &blocker{resource: name, limit: limit, needed: more.Other[name], quota: true}
		}
	}
	return nil
}

// OverLimits returns the limit that more would exceed in addition to use, or "".
func OverLimits(limits *resources.Limits, use, more resources.ResourceAmounts) string {
	if l := overLimits(limits, use, more); l != nil {
		return l.String()
	}
	return ""
}

// OverQuota returns the quota that has too little left for more, or "".
func OverQuota(q resources.Quota, more resources.ResourceAmounts) string {
	if l := overQuota(remaining(q.Limit, q.Used), more); l != nil {
		return l.String()
	}
	return ""
}
