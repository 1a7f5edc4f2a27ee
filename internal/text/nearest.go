package text

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

const (
	maxEdits = 4   // between a word and its suggestions
	maxWord  = 256 // bytes; longer words get no suggestion
)

// Nearest returns the option that a word most probably stands for, or "".
func Nearest(word string, options []string) string {
	if near := Near(word, options); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Near returns the options that a word may stand for, the most probable first. They differ from it by one edit for
// every three characters, at most four: an insertion, a deletion, a substitution, or a transposition. Case and the
// separators dash, dot and underscore do not count. An option with a different long number, such as that of another
// node, does not match.
func Near(word string, options []string) []string {
	if word == "" || len(word) > maxWord {
		return nil
	}
	given, numbers := []rune(fold(word)), longNumbers(word)
	bound := min(max(len(given)/3, 1), maxEdits)
	edits := map[string]int{}
	var near []string
	for _, option := range options {
		if _, known := edits[option]; known || option == "" || len(option) > maxWord {
			continue
		}
		folded := []rune(fold(option))
		if len(folded) > len(given)+bound || len(given) > len(folded)+bound {
			continue
		}
		if n := distance(given, folded); n <= bound && slices.Equal(numbers, longNumbers(option)) {
			edits[option] = n
			near = append(near, option)
		}
	}
	slices.SortFunc(near, func(a, b string) int {
		return cmp.Or(cmp.Compare(edits[a], edits[b]), cmp.Compare(a, b))
	})
	return near
}

var folder = strings.NewReplacer("-", "_", ".", "_")

func fold(word string) string { return strings.ToLower(folder.Replace(word)) }

var longNumber = regexp.MustCompile(`\d{5,}`)

// longNumbers returns the numbers in a word that are IDs and not versions.
func longNumbers(word string) []string {
	all := longNumber.FindAllString(word, -1)
	for i := range all {
		all[i] = strings.TrimLeft(all[i], "0")
	}
	return all
}

// distance returns the optimal string alignment distance: no character is edited twice.
func distance(a, b []rune) int {
	var before, above []int // rows of the table, for i-2 and i-1 characters of a
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := above[j-1]
			if a[i-1] != b[j-1] {
				substitution++
			}
			row[j] = min(above[j]+1, row[j-1]+1, substitution)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
