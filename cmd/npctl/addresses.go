package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// addressOf parses an address of a node in the forms that npctl why accepts: node.1, node/1 or 0000000001. It returns
// any other text unchanged.
func addressOf(text string) string {
	if isID(text) {
		return "node." + idOf(resources.KindNode, text)
	}
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindRequest} {
		for _, sign := range []string{"/", "."} {
			if id, ok := strings.CutPrefix(text, string(kind)+sign); ok {
				return string(kind) + "." + idOf(kind, id)
			}
		}
	}
	for _, kind := range []string{"label/", "provider/"} {
		if strings.HasPrefix(text, kind) {
			return strings.Replace(text, "/", ".", 1)
		}
	}
	return text
}

// isID reports whether text is the ID of a node or a request without its kind.
func isID(text string) bool {
	return strings.Trim(text, "0123456789") == "" && text != "" || requestID.MatchString(text)
}

// requestID matches the IDs of requests in ZooKeeper: the priority and a sequence number.
var requestID = regexp.MustCompile(`^[0-9]{3}-[0-9]{10}$`)

// checkAddresses returns an error if an address of -target, -exclude or -replace matches no object. Without this check,
// a plan with a mistyped -exclude would change the object that it was meant to leave out.
func checkAddresses(opt plan.Options, want resources.Desired, seen plan.Observed) error {
	known := knownAddresses(want, seen.Records, seen.Files)
	for _, chosen := range slices.Concat(opt.Targets, opt.Excludes) {
		block, _, _ := strings.Cut(string(chosen), "[") // a slot of a static node
		if slices.ContainsFunc(known, func(k string) bool { return inside(k, block) }) || leftover(block, known) {
			continue
		}
		err := fmt.Errorf("nothing has the address %q", chosen)
		return didYouMean(err, string(chosen), known, "addresses are such as diskimage.NAME, label.NAME, provider.NAME, provider.NAME.pool.NAME or node.ID; npctl state list shows the existing ones")
	}
	for _, chosen := range opt.Replace {
		if err := checkReplace(string(chosen), known); err != nil {
			return err
		}
	}
	return nil
}

func checkReplace(chosen string, known []string) error {
	const forms = "images are diskimage.NAME or zuul_image.NAME, uploads provider.NAME.image.IMAGE, nodes node.ID"
	switch {
	case slices.Contains(known, chosen) && replaceable(chosen):
		return nil
	case slices.Contains(known, chosen):
		return hint(fmt.Errorf("%s cannot be replaced", chosen), forms)
	default:
		err := fmt.Errorf("nothing has the address %q", chosen)
		return didYouMean(err, chosen, keepOf(known, replaceable), forms+"; npctl state list shows the existing ones")
	}
}

// replaceable reports whether -replace accepts the kind of the address: an image, an upload or a node.
func replaceable(address string) bool {
	parts := strings.SplitN(address, ".", 4)
	switch parts[0] {
	case string(resources.DiskImage), string(resources.ZuulImage), string(resources.KindNode):
		return true
	case "provider":
		return len(parts) == 4 && parts[2] == "image"
	default:
		return false
	}
}

func inside(address, outer string) bool {
	rest, ok := strings.CutPrefix(address, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// leftover reports whether the address names a resource in a cloud without a record, such as provider.x.server.4f1c.
func leftover(address string, known []string) bool {
	parts := strings.SplitN(address, ".", 4)
	return len(parts) == 4 && slices.Contains(append([]string{"server", "image"}, resources.LeftoverTypes...), parts[2]) &&
		slices.Contains(known, parts[0]+"."+parts[1])
}

// knownAddresses returns the addresses of the configuration, of the records and of image files.
func knownAddresses(want resources.Desired, records plan.Records, files []plan.ImageFile) []string {
	var known []string
	add := func(parts ...string) { known = append(known, strings.Join(parts, ".")) }
	for i := range want.Images {
		add(string(want.Images[i].Kind), want.Images[i].Name)
	}
	for i := range want.Labels {
		add("label", want.Labels[i].Name)
	}
	for i := range want.Providers {
		p := &want.Providers[i]
		add("provider", p.Name)
		for _, image := range p.CloudImages {
			add("provider", p.Name, "cloud_image", image.Name)
		}
		for j := range p.Pools {
			addPool(add, p.Name, &p.Pools[j])
		}
	}
	for _, r := range records.Providers {
		add("provider", r.Name)
	}
	for _, b := range records.Builds {
		add(string(b.Kind), b.Image)
	}
	for _, u := range records.Uploads {
		add("provider", u.Provider, "image", u.Image)
	}
	for _, n := range records.Nodes {
		add("node", n.ID)
		add("provider", n.Provider, "pool", n.Pool)
		for _, label := range n.Labels {
			add("provider", n.Provider, "pool", n.Pool, "label", label)
			add("label", label)
		}
	}
	for _, f := range files {
		add("file", f.Name)
	}
	return known
}

func addPool(add func(...string), provider string, p *resources.Pool) {
	add("provider", provider, "pool", p.Name)
	for _, o := range p.Offers {
		add("provider", provider, "pool", p.Name, "label", o.Label)
		if o.Image.IsUploaded() {
			add("provider", provider, "image", o.Image.Name)
		}
	}
	for i := range p.Nodes {
		add("provider", provider, "pool", p.Name, "node", p.Nodes[i].Name)
	}
}
