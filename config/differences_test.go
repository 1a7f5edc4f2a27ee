package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// compared loads two configurations and returns one line for each difference.
func compared(t *testing.T, base, head string) string {
	t.Helper()
	var results [2]*Result
	for i, text := range []string{base, head} {
		opts := write(t, map[string]string{"main.hcl": text})
		opts.Compare = true
		results[i] = load(t, opts)
	}
	var lines []string
	for _, d := range Differences(results[0], results[1]) {
		what := fmt.Sprintf("%s %s -> %s (%s)", d.Attribute, d.Before, d.After, d.Class)
		if d.Block != "" {
			what = "block " + string(d.Block)
		}
		lines = append(lines, fmt.Sprintf("%s: %s line %d", d.Address, what, d.Source.Line))
	}
	return strings.Join(lines, "\n")
}

func TestDifferences(t *testing.T) {
	base := with(nil)
	cases := []struct {
		name       string
		base, head string
		want       string
	}{
		{"none", base, "# a comment\n" + base, ""},
		{"a default, written out", base, with(map[string]string{"label": `size = "small"`}), ""},
		{"a limit", base, with(map[string]string{"pool": `max_servers = 3`}), "provider.one.pool.main: max_servers  -> 3 (in place) line 15"},
		{"a map", base, with(map[string]string{"label": `properties = { a = "b" }`}),
			`provider.one.pool.main.label.small: properties  -> {"a":"b"} (in place) line 18`},
		{"a value that labels inherit, at the pool and at the label", base, with(map[string]string{"pool": `networks = ["a"]`}),
			`provider.one.pool.main: networks  -> ["a"] (replacing) line 15` + "\n" + `provider.one.pool.main.label.small: networks  -> ["a"] (replacing) line 16`},
		{"a builder", base, with(map[string]string{"builder": `release = "bookworm"`}), `diskimage.debian: builder.release  -> "bookworm" (replacing) line 7`},
		{"a nested block", base, with(map[string]string{"label": "volume {\n size = 3\n }"}),
			`provider.one.pool.main.label.small: volume [] -> [{"key":null,"size":3}] (replacing) line 18`},
		{"a secret", with(map[string]string{"provider": `password = "one"`}), with(map[string]string{"provider": `password = "two"`}),
			"provider.one: password (sensitive) -> (sensitive) (in place) line 13"},
		{"blocks", base, strings.Replace(base, `label "fixed" {}`, `label "fixed" {}`+"\n"+`label "new" {}`, 1) + "provider \"static\" \"more\" {}\n",
			"label.new: block added line 4\nprovider.more: block added line 31"},
		{"a removed block", base + "provider \"static\" \"more\" {}\n", base, "provider.more: block removed line 30"},
		{"a default of a variable", "variable \"n\" { default = 1 }\n" + with(map[string]string{"node": "slots = var.n"}),
			"variable \"n\" { default = 2 }\n" + with(map[string]string{"node": "slots = var.n"}), "provider.lab.pool.main.node.n1: slots 1 -> 2 (in place) line 27"},
		{"a parent", "diskimage \"base\" {\n abstract = true\n keep = 3\n}\n" + with(map[string]string{"diskimage": "parent = diskimage.base"}),
			"diskimage \"base\" {\n abstract = true\n keep = 4\n}\n" + with(map[string]string{"diskimage": "parent = diskimage.base"}), "diskimage.debian: keep 3 -> 4 (in place) line 3"},
		{"moved blocks", base, strings.NewReplacer(`"one"`, `"two"`, `diskimage "debian"`, `diskimage "trixie"`, "diskimage.debian", "diskimage.trixie", `label "small"`, `label "tiny"`).Replace(base) +
			"moved {\n from = provider.one\n to = provider.two\n}\nmoved {\n from = diskimage.debian\n to = diskimage.trixie\n}\nmoved {\n from = label.small\n to = label.tiny\n}\n",
			"moved.diskimage.debian: block added line 34\nmoved.label.small: block added line 38\nmoved.provider.one: block added line 30"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { same(t, "differences", compared(t, c.base, c.head), c.want) })
	}
}

// A copy of a configuration has the same values as the original, also those with its directory.
func TestCopyReadsItsOwnFilesUnderTheOriginalPath(t *testing.T) {
	files := map[string]string{"main.hcl": with(map[string]string{"label": `user_data = "${path.config} ${file("${path.config}/text")}"`}), "text": "one"}
	original, copied := write(t, files), write(t, files)
	original.Compare, copied.Compare = true, true
	dir, err := filepath.Abs(original.Path)
	if err != nil {
		t.Fatal(err)
	}
	copied.PathConfig = dir
	same(t, "differences", len(Differences(load(t, copied), load(t, original))), 0)
	if err := os.WriteFile(filepath.Join(copied.Path, "text"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	same(t, "differences after a change of the file of the copy", len(Differences(load(t, copied), load(t, original))), 1)
}
