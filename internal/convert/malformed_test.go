package convert

import (
	"strings"
	"testing"
)

// TestMalformedInput checks that each mistake has its line, and that no input panics or is converted in part.
func TestMalformedInput(t *testing.T) {
	pool := func(text string) string {
		return small + "    pools:\n      - name: main\n        labels:\n          - " + text + "\n"
	}
	for name, c := range map[string]struct{ yaml, want string }{
		"tab":                                 {"labels:\n\t- name: x\n", "n.yaml:2: invalid YAML"},
		"not UTF-8":                           {"labels:\n  - name: \xff\xfe\n", "n.yaml: invalid YAML"},
		"UTF-16":                              {"\xff\xfel\x00a", "n.yaml"},
		"control character":                   {"labels: \x01\n", "control characters are not allowed"},
		"top level is a text":                 {"labels\n", "n.yaml:1: n.yaml is not a configuration"},
		"labels is a mapping":                 {"labels: {a: b}\n", "n.yaml:1: labels is a mapping; it has to be a list"},
		"a label is a text":                   {"labels:\n  - x\n", "n.yaml:2: labels has an element that is not a mapping"},
		"a name is a list":                    {"labels:\n  - name: [x]\n", "n.yaml:2: the label has no name"},
		"a name is null":                      {"labels:\n  - name:\n", "n.yaml:2: the label has no name"},
		"a diskimage is a list":               {"diskimages:\n  - [x]\n", "n.yaml:2: diskimages has an element"},
		"elements is a mapping":               {"diskimages:\n  - name: x\n    elements: {a: b}\n", `n.yaml:3: elements is a mapping; it has to be a list of texts`},
		"an element is a mapping":             {"diskimages:\n  - name: x\n    elements: [{a: b}]\n", "elements has an element that is not a text"},
		"env-vars is a list":                  {"diskimages:\n  - name: x\n    env-vars: [A]\n", "n.yaml:3: env-vars is a list; it has to be a mapping"},
		"parent is a list":                    {"diskimages:\n  - name: x\n    parent: [y]\n", "n.yaml:3: parent is a list; it has to be a text"},
		"driver is a mapping":                 {"providers:\n  - name: p\n    driver: {name: openstack}\n", "n.yaml:3: driver is a mapping; it has to be a text"},
		"cloud is a list":                     {"providers:\n  - name: p\n    cloud: [c]\n", "n.yaml:3: cloud is a list; it has to be a text"},
		"pools is a text":                     {small + "    pools: main\n", `n.yaml:9: pools is "main"; it has to be a list`},
		"a pool is a text":                    {small + "    pools: [main]\n", "n.yaml:9: pools has an element"},
		"max-servers is a text":               {small + "    pools: [{name: m, max-servers: all}]\n", `n.yaml:9: max-servers is "all"; it has to be a whole number`},
		"a label of a pool is a text":         {pool("debian"), "n.yaml:12: labels has an element"},
		"min-ram is a bool":                   {pool("{name: debian, diskimage: debian-12, min-ram: yes}"), `n.yaml:12: min-ram is "yes"; it has to be a whole number`},
		"diskimage is a mapping":              {pool("{name: debian, diskimage: {name: debian-12}, min-ram: 1}"), "n.yaml:12: diskimage is a mapping; it has to be a text"},
		"nodes is a mapping":                  {"providers:\n  - name: p\n    driver: static\n    pools: [{name: m, nodes: {name: n}}]\n", "n.yaml:4: nodes is a mapping; it has to be a list"},
		"webapp is a list":                    {"webapp: [8005]\n", ""},
		"zookeeper-servers is a text":         {"zookeeper-servers: zk\n", `n.yaml:1: zookeeper-servers is "zk"; it has to be a list`},
		"zookeeper-tls is a list":             {"zookeeper-servers: [{host: zk}]\nzookeeper-tls: [a]\n", "n.yaml:2: zookeeper-tls is a list; it has to be a mapping"},
		"tenant limits is a mapping":          {"tenant-resource-limits: {a: b}\n", "n.yaml:1: tenant-resource-limits is a mapping"},
		"a tenant has no name":                {"tenant-resource-limits: [{name: x, max-servers: 1}]\n", "n.yaml:1: the tenant limit has no tenant-name"},
		"an alias without an anchor":          {"labels: *x\n", "unknown anchor 'x'"},
		"a key is a list":                     {"[a]: b\n", "n.yaml:1: the key of a mapping is not a text"},
		"deep nesting":                        {strings.Repeat("[", 200) + strings.Repeat("]", 200), "100 levels"},
		"deep nesting of mappings":            {strings.Repeat("{a: ", 200) + strings.Repeat("}", 200), "100 levels"},
		"more nesting than the library reads": {strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "n.yaml"},
		"a merge bomb":                        {mergeBomb(), "too large"},
		"a name in the environment":           {"labels: [{name: \"%(NODEPOOL_LABEL)\"}]\n", "npctl needs the name itself"},
		"a key in the environment":            {"diskimages: [{name: a, env-vars: {\"%(NODEPOOL_KEY)\": b}}]\n", "reference to the environment"},
	} {
		r, err := translated(Input{Name: "n.yaml", YAML: []byte(c.yaml)})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: error %v", name, err)
		case c.want != "" && (err == nil || r != nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, not %q", name, err, c.want)
		}
	}
}

// mergeBomb merges each mapping ten times into the next one.
func mergeBomb() string {
	bomb := "a0: &a0 {k: [x, x, x, x, x, x, x, x, x, x]}\n"
	for i := range 9 {
		from, to := string(rune('0'+i)), string(rune('1'+i))
		bomb += "a" + to + ": &a" + to + " {<<: [" + strings.TrimSuffix(strings.Repeat("*a"+from+", ", 10), ", ") + "], k" + to + ": [" + strings.TrimSuffix(strings.Repeat("*a"+from+", ", 10), ", ") + "]}\n"
	}
	return bomb
}

func TestTheLastOfTwoEqualKeysCounts(t *testing.T) {
	text, r := converted(t, Input{YAML: []byte("labels:\n  - name: x\n    min-ready: 1\n    min-ready: 2\nlabels:\n  - name: x\n    min-ready: 3\n    min-ready: 4\n")})
	wantLines(t, text, "min_ready = 4")
	if strings.Count(text, "label \"x\"") != 1 {
		t.Errorf("the first list of labels is in the output:\n%s", text)
	}
	for _, path := range []string{"labels", "labels[x].min-ready"} {
		if e := entryOf(t, r, path); e.Verdict != NoEffect || !strings.Contains(e.Note, "is set again on line") {
			t.Errorf("first entry of %s: %+v", path, e)
		}
	}
}

func TestSecureFileWithoutKnownSections(t *testing.T) {
	for name, c := range map[string]struct{ secure, want string }{
		"empty":               {"", ""},
		"only a comment":      {"# nothing yet\n", ""},
		"other sections":      {"password: hidden\n", ""},
		"null sections":       {"zookeeper-servers:\nzookeeper-tls:\ndiskimages:\n", ""},
		"a list":              {"- hidden\n", "secure.conf:1: the secure file has to be a mapping"},
		"the old INI format":  {"[mysql]\ndburi = hidden\n", "secure.conf:1: the file is not valid YAML"},
		"tls without servers": {"zookeeper-tls: {cert: /hidden}\n", ""},
		"an unknown image":    {"diskimages: [{name: nothing, env-vars: {A: hidden}}]\n", `secure.conf:1: there is no diskimage "nothing"`},
		"not UTF-8":           {"zookeeper-servers: \xff\n", "secure.conf: the file is not valid YAML"},
	} {
		r, err := translated(Input{YAML: []byte(small), Secure: []byte(c.secure)})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: error %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, not %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "hidden"), err == nil && strings.Contains(r.Text(true), "hidden"):
			t.Errorf("%s: a value of the secure file is visible", name)
		}
	}
}
