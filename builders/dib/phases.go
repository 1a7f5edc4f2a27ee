package dib

import (
	"regexp"
	"slices"
	"strings"
)

// order is the order of diskimage-builder's phases; the last one is ours. Not every image has all of them.
var order = []string{
	"root", "extra-data", "pre-install", "install", "post-install", "post-root", "block-device", "pre-finalise",
	"finalise", "cleanup", "image",
}

// phases reads the build log for what is going on.
type phases struct {
	tell func(phase string, done, total int64)
	at   int
}

var (
	// stamp is put before every line unless DIB_NO_TIMESTAMP is set.
	stamp = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \| `)
	hook  = regexp.MustCompile(`^dib-run-parts Running /\S*/([a-z-]+)\.d/(\S+)$`)
)

func (p *phases) start() { p.report("starting") }

// line looks at one line of the log. Lines of a trace begin with a plus and match nothing.
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

// chatter tells the lines of a trace, and what diskimage-builder says to itself, from what explains a failure.
func chatter(line string) bool {
	line = stamp.ReplaceAllString(line, "")
	return strings.HasPrefix(line, "+") || strings.HasPrefix(line, "DEBUG ") || strings.HasPrefix(line, "INFO ")
}

// enter never goes back: hooks of some elements run others.
func (p *phases) enter(phase string) { p.at = max(p.at, slices.Index(order, phase)) }

func (p *phases) report(text string) {
	if p.tell != nil {
		p.tell(text, int64(p.at), int64(len(order)))
	}
}
