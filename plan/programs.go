package plan

import (
	"fmt"
	"slices"
)

// Program is one that the host of npctl lacks.
type Program struct {
	Name    string
	Package string // what to install on Debian; empty when unknown
}

// Tools is what the builds of one image need of this host.
type Tools struct {
	Missing []Program // that the builder runs
	Makes   []string  // formats that the builder makes without qemu-img; nil when unknown
}

// work is what steps that need programs do, as a noun.
var work = map[Action]string{ActionBuild: "build", ActionConvert: "conversion"}

// missingPrograms notes which steps will fail for want of a program.
func (c *computation) missingPrograms(steps []Step) (notes []Note) {
	seen := map[string]bool{}
	for _, s := range steps {
		for _, program := range c.lacks(s) {
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

// lacks lists the programs that the step needs and that are not there.
func (c *computation) lacks(s Step) []Program {
	tools := c.seen.Tools[s.Image]
	switch s.Action {
	case ActionBuild:
		needed := slices.Clone(tools.Missing)
		foreign := func(format string) bool { return !slices.Contains(tools.Makes, format) }
		if tools.Makes != nil && slices.ContainsFunc(s.Formats, foreign) {
			needed = append(needed, c.seen.Converter...)
		}
		return needed
	case ActionConvert:
		return c.seen.Converter
	default:
		return nil
	}
}
