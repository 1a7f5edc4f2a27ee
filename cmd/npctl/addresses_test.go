package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
)

func TestCompletionOffersReplaceableAddresses(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../../examples/zuul-images.hcl")
	testutil.Must(t, err)
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "npctl.hcl"), text, 0o600))
	a := newApp(terminal.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, func(string) (string, bool) { return "", false })
	a.global.config = filepath.Join(dir, "npctl.hcl")
	c := newCompletion(a, []string{"apply", "-state=" + filepath.Join(dir, "none.db"), "-var=cloud=sandbox", "-replace="})
	var offered []string
	for _, one := range c.candidates(t.Context()) {
		offered = append(offered, strings.TrimPrefix(one.Text, "-replace="))
	}
	known := knownAddresses(c.desired(), plan.Records{}, nil)
	slices.Sort(known)
	accepted := slices.Compact(keepOf(known, func(address string) bool { return checkReplace(address, known) == nil }))
	if diff := cmp.Diff(accepted, offered); diff != "" {
		t.Errorf("-replace (-accepted +offered):\n%s", diff)
	}
	if image := "zuul_image.ubuntu-focal"; !slices.Contains(offered, image) {
		t.Errorf("%s is not offered among %v", image, offered)
	}
}
