package render

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// costCase is one of the amounts of a cost.
type costCase struct {
	title string // as wide as the others
	words string // after an amount
	of    func(resources.CostRates) resources.Rate
}

var costCases = []costCase{
	{"at min_ready  ", "at min_ready", func(r resources.CostRates) resources.Rate { return r.MinReady }},
	{"now           ", "now", func(r resources.CostRates) resources.Rate { return r.Now }},
	{"at the limits ", "at the limits", func(r resources.CostRates) resources.Rate { return r.Limits }},
}

// unpricedShown is the maximum number of printed labels and pools that the amounts do not contain.
const unpricedShown = 5

// costLabelsShown is the maximum number of labels in the text of a change.
const costLabelsShown = 10

// CostSummary returns the amounts of the existing nodes and of min_ready on one line, or "" without prices.
func CostSummary(c resources.Cost) string {
	if len(c.Totals) == 0 {
		return ""
	}
	return amounts(c.Totals, costCases[1], perHour) + " per hour now (" + amounts(c.Totals, costCases[1], perMonth) + " in 30 days), " +
		amounts(c.Totals, costCases[0], perHour) + " at min_ready"
}

func perHour(r resources.Rate) float64  { return r.Hour }
func perMonth(r resources.Rate) float64 { return r.Month }

// amounts joins the amounts of all currencies: "0.20 EUR + 3.00 USD". Of several amounts it omits zeros.
func amounts(lines []resources.CostLine, of costCase, over func(resources.Rate) float64) string {
	var words []string
	for i := range lines {
		if amount := over(of.of(lines[i].CostRates)); amount != 0 || len(lines) == 1 {
			words = append(words, text.Amount(amount)+unit(lines[i].Currency))
		}
	}
	if len(words) == 0 {
		return text.Amount(0)
	}
	return strings.Join(words, " + ")
}

func unit(currency string) string {
	if currency == "" {
		return ""
	}
	return " " + safe(currency)
}

// costLines returns the lines of a cost: the amounts in each case, and the parts that they do not contain. With all, they also have the
// amounts of each label.
func costLines(c resources.Cost, all bool) (lines []string) {
	if len(c.Totals) > 0 {
		for _, of := range costCases {
			lines = append(lines, of.title+amounts(c.Totals, of, perHour)+" per hour, "+amounts(c.Totals, of, perMonth)+" in 30 days")
		}
	}
	for i := range c.Labels {
		if l := &c.Labels[i]; all {
			words := make([]string, len(costCases))
			for j, of := range costCases {
				words[j] = amounts(c.Labels[i:i+1], of, perHour) + " " + of.words
			}
			if len(l.Pools) > 0 {
				words[0] += " (in " + safe(text.And(l.Pools)) + ")"
			}
			lines = append(lines, safe(l.Label)+" in "+safe(l.Provider)+": "+strings.Join(words, ", ")+" per hour")
		}
	}
	return append(lines, uncountedLines(c, all)...)
}

// uncountedLines returns the lines about the parts that the amounts do not contain.
func uncountedLines(c resources.Cost, all bool) (lines []string) {
	var unpriced, unlimited []string
	for _, u := range c.WithoutPrice {
		if u.MinReady+u.Now == 0 && !all {
			continue
		}
		name := safe(u.Label) + " in " + safe(u.Provider)
		if u.Static {
			name += " (static)"
		}
		unpriced = append(unpriced, name+": "+text.Count(u.MinReady, "node", "nodes")+" at min_ready, "+text.Count(u.Now, "node", "nodes")+" now")
	}
	for _, pool := range c.Unlimited {
		unlimited = append(unlimited, safe(pool))
	}
	if len(unpriced) > 0 {
		lines = append(lines, "without a price: "+someOf(unpriced, "; ", all))
	}
	if len(unlimited) > 0 {
		lines = append(lines, "without a limit: "+someOf(unlimited, ", ", all))
	}
	return lines
}

func someOf(names []string, separator string, all bool) string {
	if more := len(names) - unpricedShown; more > 0 && !all {
		names = append(names[:unpricedShown:unpricedShown], text.Count(more, "more", "more"))
	}
	return strings.Join(names, separator)
}

// costChangeLines returns the lines of a change of the cost: the totals and labels that differ, before and after it, and new entries
// among the parts without a price or a limit.
func costChangeLines(c plan.CostChange, all bool) (lines []string) {
	for _, d := range c.Totals {
		for _, of := range costCases {
			if line, differs := costChangeLine(d, of); differs {
				lines = append(lines, of.title+line)
			}
		}
	}
	for i, d := range c.Labels {
		if i == costLabelsShown && !all {
			lines = append(lines, "("+text.Count(len(c.Labels)-i, "more label", "more labels")+" hidden)")
			break
		}
		var words []string
		for _, of := range costCases {
			if line, differs := costChangeLine(d, of); differs {
				words = append(words, of.words+" "+line)
			}
		}
		lines = append(lines, safe(d.Label)+" in "+safe(d.Provider)+": "+strings.Join(words, "; "))
	}
	var added resources.Cost
	for _, u := range c.After.WithoutPrice {
		if !slices.Contains(c.Before.WithoutPrice, u) {
			added.WithoutPrice = append(added.WithoutPrice, u)
		}
	}
	for _, pool := range c.After.Unlimited {
		if !slices.Contains(c.Before.Unlimited, pool) {
			added.Unlimited = append(added.Unlimited, pool)
		}
	}
	return append(lines, uncountedLines(added, false)...)
}

// costChangeLine returns text such as "0.20 -> 0.40 EUR per hour (+0.20; in 30 days +144.00)".
func costChangeLine(d plan.CostDifference, of costCase) (line string, differs bool) {
	more := of.of(d.Difference)
	return text.Amount(of.of(d.Before).Hour) + " -> " + text.Amount(of.of(d.After).Hour) + unit(d.Currency) + " per hour (" +
		signed(more.Hour) + "; in 30 days " + signed(more.Month) + ")", more.Hour != 0
}

func signed(x float64) string {
	if x < 0 {
		return text.Amount(x)
	}
	return "+" + text.Amount(x)
}

// section prints lines below a title, if there are any.
func (t *textWriter) section(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	t.heading(title)
	for _, line := range lines {
		t.line("  ", 6, span{line, stylePlain})
	}
}
