package plan

import (
	"fmt"
	"slices"
)

// Program is a program that this host lacks.
type Program struct {
	Name    string
	Package string // the Debian package to install; empty when unknown
}

// Tools states what the builds of one image need of this host.
type Tools struct {
	Missing []Program // programs that the builder runs
	Formats []string  // formats that the builder creates without qemu-img; nil when unknown
}

// work names the work of steps that need programs.
var work = map[Action]string{ActionBuild: "build", ActionConvert: "conversion"}

// missingPrograms notes the steps that will fail because a program is missing.
func (rv review) missingPrograms(steps []Step) (notes []Note) {
	seen := map[string]bool{}
	for _, s := range steps {
		for _, program := range rv.lacks(s) {
			text := fmt.Sprintf("this host lacks %s, so the %s of %s will fail", program.Name, work[s.Action], s.Address)
			if program.Package != "" {
				text += "; install the Debian package " + program.Package
			}
			if !seen[text] {
				seen[text] = true
				notes = append(notes, Note{Severity: Warning, Code: "program-missing", Address: s.Address, Text: text, Source: s.Source})
			}
		}
	}
	return notes
}

// lacks lists the missing programs that the step needs.
func (rv review) lacks(s Step) []Program {
	tools := rv.world.seen.Tools[s.Image]
	switch s.Action {
	case ActionBuild:
		needed := slices.Clone(tools.Missing)
		foreign := func(format string) bool { return !slices.Contains(tools.Formats, format) }
		if tools.Formats != nil && slices.ContainsFunc(s.Formats, foreign) {
			needed = append(needed, rv.world.seen.Converter...)
		}
		return needed
	case ActionConvert:
		return rv.world.seen.Converter
	default:
		return nil
	}
}
