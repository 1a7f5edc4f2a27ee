package main

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const example = `package plan

func (n *node) advance(a, b int) error {
	if a < b && n.ready {
		n.ready = false
		n.start()
	}
	n.log.Info("text", "ready", true)
	return nil
}

func (n *node) String() string { if n.ready { return "ready" }; return "" }
`

func TestEveryOperatorFindsItsPlace(t *testing.T) {
	found, err := sites("plan/example.go", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range found {
		lines = append(lines, strings.Join([]string{m.operator, m.before, m.after}, "|"))
		if _, err := parser.ParseFile(token.NewFileSet(), "", m.mutant(), 0); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
	for _, want := range []string{
		"negate-if|a < b && n.ready|!(a < b && n.ready)",
		"swap-and-or|a < b && n.ready|((a < b )||( n.ready))",
		"swap-comparison|a < b|(a <= b)",
		"delete-statement|n.ready = false|(nothing)",
		"delete-statement|n.start()|(nothing)",
		"swap-bool|false|true",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is missing in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if len(found) != 8 { // and return-nil before each of the two statements that precede the last
		t.Errorf("%d mutations, want 8:\n%s", len(found), strings.Join(lines, "\n"))
	}
}

func TestAMutationIsFoundAfterOtherCodeChanged(t *testing.T) {
	before, err := sites("plan/example.go", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(example, "\tn.log.Info", "\tif b < a { n.stop() }\n\n\tn.log.Info", 1)
	changed = strings.Replace(changed, "\tif a < b", "\tif b == 7 { n.halt() }\n\tif a < b", 1)
	after, err := sites("plan/moved.go", []byte(changed))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range before {
		found, ok := find(map[string][]mutation{"plan": after}, m.String())
		if !ok || found.operator != m.operator || found.before != m.before {
			t.Errorf("%s: found %v %s", m, ok, found)
		}
	}
	gone := map[string][]mutation{"plan": before[:0]}
	if _, ok := find(gone, before[0].String()); ok {
		t.Error("a mutation of a function that is gone was found")
	}
}

func TestTheDrawIsTheSameForASeed(t *testing.T) {
	found, err := sites("plan/example.go", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string][]mutation{"plan": found}
	first, second := shuffle(groups, 21)["plan"], shuffle(groups, 21)["plan"]
	if len(first) != len(found) {
		t.Fatalf("%d of %d mutations drawn", len(first), len(found))
	}
	for i := range first {
		if first[i].String() != second[i].String() {
			t.Errorf("%d: %s, then %s", i, first[i], second[i])
		}
	}
}

func TestTheFirstFailingTestIsTheKiller(t *testing.T) {
	out := "--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/b (0.00s)\nFAIL\nFAIL\tgithub.com/npctl/npctl/plan\t0.1s\nFAIL\n"
	if got := killer(out); got != "plan TestA/b" {
		t.Errorf("killer = %q", got)
	}
}
