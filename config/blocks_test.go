package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

// changedBlocks returns the addresses of the blocks that differ.
func changedBlocks(before, after []resources.Block) (changed []string) {
	digests := map[string]string{}
	for _, b := range before {
		digests[b.Address] = b.Digest
	}
	for _, b := range after {
		if digests[b.Address] != b.Digest {
			changed = append(changed, b.Address)
		}
	}
	return changed
}

func TestBlockDigestsChangeWithTheirBlocks(t *testing.T) {
	before := source(t, with(nil)).Blocks
	if !slices.IsSortedFunc(before, func(a, b resources.Block) int { return strings.Compare(a.Address, b.Address) }) || before[0].Source.File == "" {
		t.Errorf("got %v", before)
	}
	for block, want := range map[string][]string{
		"builder": {"diskimage.debian"}, "diskimage": {"diskimage.debian"}, "provider": {"provider.one"},
		"label": {"provider.one.pool.main.label.small"}, "node": {"provider.lab.pool.main.node.n1"},
	} {
		attribute := map[string]string{"builder": `release = "trixie"`, "diskimage": `keep = 7`, "provider": `rate = 9`,
			"label": `flavor = "tiny"`, "node": `slots = 3`}[block]
		got := changedBlocks(before, source(t, with(map[string]string{block: attribute})).Blocks)
		same(t, block, got, want)
	}
}

func TestBlockDigestsDoNotRevealSensitiveValues(t *testing.T) {
	text := `variable "secret" { sensitive = true }` + with(map[string]string{"builder": `env = { TOKEN = var.secret }`})
	opts := write(t, map[string]string{"main.hcl": text})
	var all [2][]resources.Block
	var digests [2]string
	for i, value := range []string{"one", "two"} {
		opts.Vars = []string{"secret=" + value}
		d := load(t, opts).Desired
		all[i], digests[i] = d.Blocks, string(d.WithHashKey("key").Digests.Current())
	}
	same(t, "blocks", all[1], all[0])
	if digests[0] == digests[1] {
		t.Error("the digest of the configuration does not show the change")
	}
}
