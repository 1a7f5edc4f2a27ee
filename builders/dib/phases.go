package dib

import (
	"regexp"
	"slices"
	"strings"
)

// order lists diskimage-builder's phases in order; the last one is npctl's. Not every image has all of them.
var order = []string{
	"root", "extra-data", "pre-install", "install", "post-install", "post-root", "block-device", "pre-finalise",
	"finalise", "cleanup", "image",
}

// phases reads the progress of a build from its log.
type phases struct {
	onPhase func(phase string, done, total int64)
	at      int
}

var (
	// stamp matches the prefix of every line unless DIB_NO_TIMESTAMP is set.
	stamp = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \| `)
	hook  = regexp.MustCompile(`^dib-run-parts Running /\S*/([a-z-]+)\.d/(\S+)$`)
)

func (p *phases) start() { p.report("starting") }

// line parses one line of the log. Lines of a trace start with a plus sign and match nothing.
func (p *phases) line(line string) {
	line = stamp.ReplaceAllString(line, "")
	if found := hook.FindStringSubmatch(line); found != nil {
		p.enter(found[1])
		p.report(found[1] + ": " + found[2])
		return
	}
	switch {
	case strings.HasPrefix(line, "Converting image using qemu-img"):
		p.enter("image")
		p.report("image: converting with qemu-img")
	case strings.HasPrefix(line, "Image file "):
		p.enter("image")
		p.report("image: " + strings.TrimSuffix(strings.TrimPrefix(line, "Image file "), "..."))
	case line == "Build completed successfully":
		p.at = len(order)
		p.report("done")
	}
}

// isTrace reports whether a line is a trace or an internal message of diskimage-builder, which does not explain a
// failure.
func isTrace(line string) bool {
	line = stamp.ReplaceAllString(line, "")
	return strings.HasPrefix(line, "+") || strings.HasPrefix(line, "DEBUG ") || strings.HasPrefix(line, "INFO ")
}

// enter never moves back, because hooks of some elements run others.
func (p *phases) enter(phase string) { p.at = max(p.at, slices.Index(order, phase)) }

func (p *phases) report(text string) {
	if p.onPhase != nil {
		p.onPhase(text, int64(p.at), int64(len(order)))
	}
}
