package render

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/npctl/npctl/plan"
)

// estimateRunsFact is the name of the fact with the number of earlier runs behind an estimate.
const estimateRunsFact = "runs"

// estimateText returns the estimated duration of an entry's steps: "about 12 min, from 14 runs".
func estimateText(e entry) string {
	steps := e.creating()
	least, most := math.Inf(1), 0.0
	for _, s := range steps {
		if s.Estimate > 0 {
			least, most = min(least, s.Estimate), max(most, s.Estimate)
		}
	}
	if most == 0 {
		return ""
	}
	text := durationText(most)
	if from := durationText(least); from != text {
		text = from + " to " + text
	}
	text = "about " + text
	if len(steps) > 1 {
		text += " each"
	}
	return text + runsText(steps[0])
}

func runsText(s *plan.Step) string {
	for _, f := range s.Evidence {
		switch {
		case f.Name == estimateRunsFact && f.Value == "1":
			return ", from 1 run"
		case f.Name == estimateRunsFact:
			return ", from " + safe(f.Value) + " runs"
		}
	}
	return ""
}

// durationText rounds a duration to the accuracy of an estimate.
func durationText(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)).Round(time.Second); {
	case d < time.Second:
		return "1 s"
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(math.Round(d.Minutes())))
	default:
		minutes := int(math.Round(d.Minutes()/5)) * 5
		if minutes%60 == 0 {
			return fmt.Sprintf("%d h", minutes/60)
		}
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	}
}

// criticalPath returns the longest chain of estimates in the plan, in seconds. Steps without an estimate count as 0,
// and the number of concurrent steps is not known, so it is the minimum duration of an apply.
func criticalPath(steps []plan.Step) float64 {
	if !slices.ContainsFunc(steps, func(s plan.Step) bool { return s.Estimate > 0 }) {
		return 0
	}
	ends := make(map[string]float64, len(steps))
	longest := 0.0
	for i := range steps {
		s := &steps[i]
		start := 0.0
		for _, before := range [][]string{s.Needs, s.After} {
			for _, id := range before {
				start = max(start, ends[id])
			}
		}
		ends[s.ID] = start + s.Estimate
		longest = max(longest, ends[s.ID])
	}
	return longest
}
