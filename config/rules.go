package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// ruleChecker checks rules that concern several blocks.
type ruleChecker struct {
	*report
	config *parsedConfig
}

// checkAll checks all rules. servers is the gearman block of the settings.
func (c *ruleChecker) checkAll(servers *resources.Gearman) {
	c.checkRules()
	c.checkMoves()
	c.checkRemoved()
	c.checkGearman(servers)
}

// checkRules checks labels, images and pools. If a block could not be read, it does not report missing or
// unused objects, because the block may contain or use them.
func (c *ruleChecker) checkRules() {
	for _, p := range c.config.providers {
		if len(p.pools) == 0 && !c.incomplete["pool"] && !c.partial {
			p.in.warning(p.at.Ptr(), "Provider without pools", fmt.Sprintf("The provider %q has no pool, so it provides no nodes.", p.Name))
		}
		for _, pool := range p.pools {
			c.checkPool(p, pool)
		}
		c.checkProviderImages(p)
		c.checkAgreement(p)
	}
	for _, name := range slices.Sorted(maps.Keys(c.config.images)) {
		if image := c.config.images[name]; !image.abstract {
			c.checkNewBuilds(image)
		}
	}
	if c.diags.HasErrors() || slices.Contains(slices.Collect(maps.Values(c.incomplete)), true) {
		return // an invalid block or an unknown value may use them
	}
	c.checkUse()
	c.checkCapacity()
	c.checkMachines()
}

// checkMachines warns of a machine that two nodes name. npctl would assign each node independently.
func (c *ruleChecker) checkMachines() {
	type placed struct {
		*parsedNode
		pool   string
		report *report
	}
	var nodes []placed
	for _, p := range c.config.providers {
		for _, pool := range p.pools {
			for _, node := range pool.nodes {
				nodes = append(nodes, placed{node, fmt.Sprintf("provider.%s.pool.%s", p.Name, pool.Name), p.in})
			}
		}
	}
	slices.SortStableFunc(nodes, func(a, b placed) int { return compareRanges(a.at, b.at) })
	first := make(map[string]placed, len(nodes))
	for _, node := range nodes {
		machine := machineOf(node.StaticNode)
		other, twice := first[machine]
		if !twice {
			first[machine] = node
			continue
		}
		node.report.warning(node.at.Ptr(), "Machine configured twice", fmt.Sprintf("The node %q in %s and the node %q in %s, at %s, are the same machine: %s. "+
			"npctl assigns them independently, so two jobs can use the machine at a time. To run several jobs on a machine, configure it once, with slots.",
			node.Name, node.pool, other.Name, other.pool, other.Source, machine))
	}
}

// machineOf returns the normalized address and port of a machine.
func machineOf(node resources.StaticNode) string {
	host := strings.TrimSuffix(strings.ToLower(node.Address), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return net.JoinHostPort(host, strconv.FormatInt(node.Login.ConnectionPort, 10))
}

// gearmanBuilder is the kind of the builder that reaches its hosts through the gearman block of the npctl block.
const gearmanBuilder = "gearman"

func (c *ruleChecker) checkGearman(servers *resources.Gearman) {
	for _, name := range slices.Sorted(maps.Keys(c.config.images)) {
		if image := c.config.images[name]; image.Builder == gearmanBuilder && servers == nil && !c.incomplete["npctl"] {
			image.in.problem(image.at.Ptr(), "Missing gearman servers", fmt.Sprintf("The image %q has the builder \"gearman\", and the npctl block has no gearman block. "+
				"Add: npctl { gearman { servers = [\"host:4730\"] } }, with each block on separate lines.", name))
		}
	}
}

func (c *ruleChecker) checkPool(p *parsedProvider, pool *parsedPool) {
	if len(pool.offers)+len(pool.nodes) == 0 && !c.incomplete["pool label"] && !c.partial {
		p.in.warning(pool.at.Ptr(), "Pool without labels", fmt.Sprintf("The pool %q of provider %q has no label and no node, so it provides no nodes.", pool.Name, p.Name))
	}
	for _, offer := range pool.offers {
		c.checkLabel(p.in, offer.Label, offer.at)
		c.checkOfferImage(p, offer)
	}
	for _, node := range pool.nodes {
		for _, label := range node.Labels {
			c.checkLabel(p.in, label, node.labelsAt)
		}
	}
}

// checkAgreement checks the rule of the driver for attributes that must agree between the labels of a provider.
func (c *ruleChecker) checkAgreement(p *parsedProvider) {
	rule := p.specs.Agree
	if rule == nil {
		return
	}
	first := map[string]parsedOffer{}
	for _, pool := range p.pools {
		for _, offer := range pool.offers {
			key, known := textOf(offer.Config, rule.By)
			other, twice := first[key]
			if !twice {
				first[key] = offer
			}
			for _, name := range rule.Attributes {
				a, knownA := textOf(offer.Config, name)
				b, knownB := textOf(other.Config, name)
				if twice && known && knownA && knownB && a != b && !sameDuration(a, b) {
					p.in.problem(offer.at.Ptr(), "Different settings", fmt.Sprintf("The labels %q and %q, at %s, have the same %s %q, so they must have the same %s, not %s and %s.",
						offer.Label, other.Label, other.Source, rule.By, key, name, a, b))
				}
			}
		}
	}
}

// sameDuration reports whether both texts are the same duration, such as 60s and 1m.
func sameDuration(a, b string) bool {
	x, errA := schema.ParseDuration(a)
	y, errB := schema.ParseDuration(b)
	return errA == nil && errB == nil && x == y
}

// textOf returns an attribute as text. known is false if its value is not known yet.
func textOf(config cty.Value, name string) (text string, known bool) {
	config, _ = config.UnmarkDeep()
	if config == cty.NilVal || config.IsNull() || !config.IsKnown() {
		return "", false
	}
	value := config.AsValueMap()[name]
	switch {
	case value == cty.NilVal || !value.IsWhollyKnown():
		return "", false
	case value.IsNull():
		return "none", true
	}
	value, err := convert.Convert(value, cty.String)
	if err != nil {
		return "", false
	}
	return value.AsString(), true
}

func (c *ruleChecker) checkLabel(in *report, name string, at hcl.Range) {
	if _, ok := c.config.labels[name]; ok || c.partial || c.incomplete["label"] || isPlaceholder(name) {
		return
	}
	names := slices.Collect(maps.Keys(c.config.labels))
	hint := cmp.Or(didYouMean(name, names), fmt.Sprintf(" Declare it with: label %q {}", name))
	in.problem(at.Ptr(), "Unknown label", fmt.Sprintf("There is no label %q.%s", name, hint))
}

// checkOfferImage also checks references that are written as objects.
func (c *ruleChecker) checkOfferImage(p *parsedProvider, offer parsedOffer) {
	ref := offer.Image
	if ref.Name == "" && ref.Kind == "" {
		return // unknown, already reported
	}
	if ref.Kind == resources.CloudImage {
		image, ok := p.cloudImages[ref.Name]
		if !ok {
			if !c.incomplete["cloud_image"] {
				p.in.problem(offer.imageAt.Ptr(), "Unknown image", fmt.Sprintf("The provider %q has no cloud_image %q.%s", p.Name, ref.Name,
					didYouMean(ref.Name, slices.Collect(maps.Keys(p.cloudImages)))))
			}
			return
		}
		image.used = true
		return
	}
	image, ok := c.config.images[ref.Name]
	switch {
	case !ok || image.Kind != ref.Kind:
		if !c.partial && !c.incomplete[string(ref.Kind)] {
			p.in.problem(offer.imageAt.Ptr(), "Unknown image", fmt.Sprintf("There is no image %s.%s", ref,
				didYouMean(ref.Name, slices.Collect(maps.Keys(c.config.images)))))
		}
		return
	case image.abstract:
		p.in.problem(offer.imageAt.Ptr(), "Abstract image", fmt.Sprintf("The image %s is abstract, so it is never built. Use an image that has it as its parent.", ref))
	case !p.specs.HasImages:
		p.in.problem(offer.imageAt.Ptr(), "Unsupported image", fmt.Sprintf("The driver %q does not support uploads of images, so %s cannot be used here.", p.specs.kind, ref))
	}
	image.used = true
}

// checkProviderImages finds the images for which a provider has settings and completes their references.
func (c *ruleChecker) checkProviderImages(p *parsedProvider) {
	for _, own := range p.images {
		image, ok := c.config.images[own.Image.Name]
		switch {
		case isPlaceholder(own.Image.Name), !ok && (c.partial || c.incomplete["diskimage"] || c.incomplete["zuul_image"]):
		case !ok:
			p.in.problem(own.at.Ptr(), "Unknown image", fmt.Sprintf("There is no diskimage or zuul_image %q.%s", own.Image.Name,
				didYouMean(own.Image.Name, slices.Collect(maps.Keys(c.config.images)))))
		case image.abstract:
			p.in.problem(own.at.Ptr(), "Abstract image", fmt.Sprintf("The image %s is abstract, so it is never uploaded.", image.Ref()))
		default:
			own.Image.Kind = image.Kind
			image.used = image.used || own.Upload
		}
	}
}

// checkNewBuilds checks the blocks about new builds of an image.
func (c *ruleChecker) checkNewBuilds(image *parsedImage) {
	if v := image.Validate; v != nil && v.Label != "" {
		c.checkLabel(image.in, v.Label, image.at)
	}
	if image.Rollout == nil {
		return
	}
	if len(image.Rollout.Stages) == 0 {
		image.in.problem(image.at.Ptr(), "Missing block", fmt.Sprintf("The rollout of %s needs a stage, for example: stage { share = 10 }", image.Ref()))
	}
	for _, stage := range image.Rollout.Stages {
		if stage.Share > 100 {
			image.in.problem(image.at.Ptr(), "Invalid value", fmt.Sprintf("The share of a stage of %s is %d, and the maximum is 100 percent.", image.Ref(), stage.Share))
		}
	}
}

// checkUse warns of unused objects.
func (c *ruleChecker) checkUse() {
	offered := map[string]bool{}
	for _, p := range c.config.providers {
		for _, pool := range p.pools {
			for _, offer := range pool.offers {
				offered[offer.Label] = true
			}
			for _, node := range pool.nodes {
				for _, label := range node.Labels {
					offered[label] = true
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.cloudImages)) {
			if image := p.cloudImages[name]; !image.used {
				p.in.warning(image.at.Ptr(), "Unused image", fmt.Sprintf("No label of the provider %q uses cloud_image.%s.", p.Name, name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.config.labels)) {
		if !offered[name] {
			c.config.labels[name].in.warning(c.config.labels[name].at.Ptr(), "Label not offered", fmt.Sprintf("No pool offers the label %q, so requests for it are never served.", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.config.images)) {
		if image := c.config.images[name]; !image.used && !image.abstract {
			image.in.warning(image.at.Ptr(), "Unused image", fmt.Sprintf("No label of any pool uses %s. It is built and uploaded nowhere.", image.Ref()))
		}
	}
}

// checkCapacity warns when a label cannot reach its min_ready. It reports no error, because a pool has max_servers =
// 0 for a while when an operator drains it.
func (c *ruleChecker) checkCapacity() {
	capacities := map[string]int64{}
	unlimited := map[string]bool{}
	for _, p := range c.config.providers {
		for _, pool := range p.pools {
			for _, offer := range pool.offers {
				if pool.MaxServers == nil {
					unlimited[offer.Label] = true
				} else {
					capacities[offer.Label] += *pool.MaxServers
				}
			}
			for _, node := range pool.nodes {
				for _, label := range node.Labels {
					capacities[label] += node.Slots
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.config.labels)) {
		label := c.config.labels[name]
		capacity, offered := capacities[name]
		if offered && !unlimited[name] && label.MinReady > capacity {
			label.in.warning(label.at.Ptr(), "Not enough capacity", fmt.Sprintf("The label %q has min_ready = %d, and the pools that offer it have a capacity of %d (max_servers and slots).", name, label.MinReady, capacity))
		}
	}
}
