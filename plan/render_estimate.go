package plan

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// factRuns is the name of the fact that says how many earlier runs an estimate rests on.
const factRuns = "runs"

// renderEstimate says how long an entry's steps will take, going by earlier runs: "about 12 min, from 14 runs".
func renderEstimate(e renderEntry) string {
	steps := e.made()
	least, most := math.Inf(1), 0.0
	for _, s := range steps {
		if s.Estimate > 0 {
			least, most = min(least, s.Estimate), max(most, s.Estimate)
		}
	}
	if most == 0 {
		return ""
	}
	text := renderDuration(most)
	if from := renderDuration(least); from != text {
		text = from + " to " + text
	}
	text = "about " + text
	if len(steps) > 1 {
		text += " each"
	}
	return text + renderRuns(steps[0])
}

func renderRuns(s *Step) string {
	for _, f := range s.Evidence {
		switch {
		case f.Name == factRuns && f.Value == "1":
			return ", from 1 run"
		case f.Name == factRuns:
			return ", from " + renderSafe(f.Value) + " runs"
		}
	}
	return ""
}

// renderDuration rounds to what a guess deserves.
func renderDuration(seconds float64) string {
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

// renderTakes is the longest chain of estimates in the plan. Steps without an estimate count nothing, and nobody knows
// how many can run at a time, so it is the least that applying will take.
func renderTakes(steps []Step) float64 {
	if !slices.ContainsFunc(steps, func(s Step) bool { return s.Estimate > 0 }) {
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
