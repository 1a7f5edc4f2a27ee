package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// TestHashesOfEveryBlockAreStable pins the hashes of images, offers and static nodes of every driver and builder. A
// hash that changes replaces nodes and images at an upgrade. Add lines for new attributes; never change a line. NPCTL_UPDATE=1 writes the file.
func TestHashesOfEveryBlockAreStable(t *testing.T) {
	reg := newRegistry()
	result, diags := config.Load(config.Options{Path: "testdata/hashes",
		Drivers: reg.driverSchemas(), Builders: reg.builderSchemas(), States: reg.states})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var lines []string
	add := func(address string, hashes resources.Hashes) {
		for _, hash := range hashes {
			lines = append(lines, fmt.Sprintf("%s %s\n", address, hash))
		}
	}
	for _, image := range result.Desired.Images {
		add(image.Ref().String(), image.Hashes)
	}
	for _, p := range result.Desired.Providers {
		for _, image := range p.Images {
			add("provider."+p.Name+".image."+image.Image.Name, image.Hashes)
		}
		for _, pool := range p.Pools {
			address := "provider." + p.Name + ".pool." + pool.Name
			for _, offer := range pool.Offers {
				add(address+".label."+offer.Label, offer.Hashes)
			}
			for _, node := range pool.Nodes {
				add(address+".node."+node.Name, node.Hashes)
			}
		}
	}
	got := strings.Join(lines, "")
	if os.Getenv("NPCTL_UPDATE") != "" {
		testutil.WriteFile(t, "testdata/hashes/hashes.txt", got)
	}
	want, err := os.ReadFile("testdata/hashes/hashes.txt")
	testutil.Must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("hashes changed (-want +got):\n%s", diff)
	}
}

// TestPinnedHashesCoverEveryReplacingAttribute fails if the configuration of the test above does not set a replacing
// attribute.
func TestPinnedHashesCoverEveryReplacingAttribute(t *testing.T) {
	text := testutil.ReadFile(t, "testdata/hashes/npctl.hcl")
	// It sets inline; a configuration cannot set script too.
	words := append(strings.Fields(text), "script")
	reg := newRegistry()
	check := func(block string, b schema.Block) {
		for _, attr := range b.Attributes {
			if attr.Class == schema.Replacing && !slices.Contains(words, attr.Name) {
				t.Errorf("%s: %s is not set", block, attr.Name)
			}
		}
	}
	for kind, d := range reg.driverSchemas() {
		for _, b := range []schema.Block{d.Provider, d.Pool, d.Label, d.CloudImage, d.Image, d.Node} {
			check(kind, b)
		}
	}
	for kind, b := range reg.builderSchemas() {
		check(kind, b)
	}
}
