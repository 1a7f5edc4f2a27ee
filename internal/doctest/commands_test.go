package doctest

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// planned are commands that pages describe as future ones. When a command exists, those pages are wrong.
var planned = []string{}

// disputed are commands in pages that npctl does not have, until one of the two is changed. Keep it empty.
var disputed = map[string]string{}

var inline = regexp.MustCompile("`(npctl [^`]+)`")

// usage is a command line of npctl in a page.
type usage struct {
	at   string
	text string
}

func TestCommandsAndOptionsExist(t *testing.T) {
	var uses []usage
	for _, page := range pages(t) {
		blocks, prose := fences(t, page)
		for _, found := range inline.FindAllStringSubmatch(prose, -1) {
			uses = append(uses, usage{page, found[1]})
		}
		for _, b := range blocks {
			uses = append(uses, commandsIn(b)...)
		}
	}
	if len(uses) < 50 {
		t.Errorf("only %d commands found", len(uses))
	}
	known := helps{}
	for _, u := range uses {
		if disputed[u.at] == u.text {
			continue
		}
		known.check(t, u)
	}
}

var command = regexp.MustCompile(`(?:^|[\s/;&|(])npctl ([a-z-].*)$`)

// commandsIn returns the npctl commands that a block runs, not those in its output.
func commandsIn(b fence) []usage {
	var uses []usage
	for _, line := range b.code {
		switch b.kind {
		case "console":
			typed, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			line = typed
		case "yaml", "ini", "sh":
		default:
			continue
		}
		for part := range strings.SplitSeq(line, "&&") {
			if found := command.FindStringSubmatch(part); found != nil {
				uses = append(uses, usage{b.String(), "npctl " + found[1]})
			}
		}
	}
	return uses
}

// helps are help texts by command.
type helps map[string]string

func (h helps) of(t *testing.T, words ...string) string {
	t.Helper()
	name := strings.Join(words, " ")
	if _, ok := h[name]; !ok {
		out, _ := exec.CommandContext(t.Context(), npctl, append(words, "-help")...).CombinedOutput()
		h[name] = string(out)
	}
	return h[name]
}

func (h helps) check(t *testing.T, u usage) {
	t.Helper()
	var words []string
	for _, word := range strings.Fields(u.text)[1:] {
		word = strings.TrimRight(word, ",.")
		if strings.ContainsAny(word, "|<>;&#") {
			break
		}
		switch option, isOption := strings.CutPrefix(word, "-"); {
		case isOption && option == "":
		case isOption:
			name, _, _ := strings.Cut(strings.TrimPrefix(option, "-"), "=")
			if name != "help" && !h.option(t, words, name) {
				t.Errorf("%s: %q: npctl %s has no option -%s", u.at, u.text, strings.Join(words, " "), name)
			}
		case len(words) == 0, len(words) == 1 && slices.Contains([]string{"state", "image", "request", "node", "providers", "driver"}, words[0]):
			if word == strings.ToUpper(word) || slices.Contains(planned, word) {
				return // npctl COMMAND
			}
			if !h.command(t, words, word) && word != "docs" {
				t.Errorf("%s: %q: npctl %s has no command %q", u.at, u.text, strings.Join(words, " "), word)
				return
			}
			words = append(words, word)
		}
	}
}

func (h helps) command(t *testing.T, words []string, name string) bool {
	t.Helper()
	return regexp.MustCompile(`(?m)^ +` + regexp.QuoteMeta(name) + `[, ]`).MatchString(h.of(t, words...))
}

func (h helps) option(t *testing.T, words []string, name string) bool {
	t.Helper()
	has := regexp.MustCompile(`(?m)^ +(-\w+, )*-` + regexp.QuoteMeta(name) + `[=, ]`)
	return has.MatchString(h.of(t, words...))
}

func TestPlannedCommandsDoNotExist(t *testing.T) {
	help := helps{}.of(t)
	for _, name := range planned {
		if strings.Contains(help, "\n     "+name+" ") {
			t.Errorf("npctl has the command %q, and the pages say that it is not there yet: README.md, docs/operations.md, docs/coming-from-nodepool.md, docs/protocols.md", name)
		}
	}
}
