package process

import (
	"regexp"
	"strconv"
)

// progressLine matches a progress report in the output of a program, for example:
//
//	npctl-progress: 3/10 installing packages
//	npctl-progress: booting the installer
var progressLine = regexp.MustCompile(`^npctl-progress: *(?:(\d{1,18})/(\d{1,18}) *)?(.*)$`)

const longestPhase = 100

// ParseProgress parses a progress report in a line of output; ok is false for any other line.
func ParseProgress(line string) (phase string, done, total int64, ok bool) {
	found := progressLine.FindStringSubmatch(line)
	if found == nil {
		return "", 0, 0, false
	}
	if found[1] != "" {
		done, _ = strconv.ParseInt(found[1], 10, 64)
		total, _ = strconv.ParseInt(found[2], 10, 64)
	}
	phase = found[3]
	return phase[:min(len(phase), longestPhase)], min(done, total), total, true
}
