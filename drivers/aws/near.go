package aws

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
)

// maxSuggestions is the number of similar names in an error.
const maxSuggestions = 5

// suggestions returns names that are similar to name, the most similar first: similar spellings, then names that start
// with name.
func suggestions(name string, names []string) []string {
	result := text.Near(name, names)
	for _, n := range slices.Sorted(slices.Values(names)) {
		if name != "" && strings.HasPrefix(n, name) && !slices.Contains(result, n) {
			result = append(result, n)
		}
	}
	return result[:min(len(result), maxSuggestions)]
}

// didYouMean returns the end of an error about an unknown name.
func didYouMean(name string, names []string) string {
	if near := suggestions(name, names); len(near) > 0 {
		return "; did you mean " + strings.Join(near, ", ") + "?"
	}
	return ""
}

// regions are the regions of the partition aws, for suggestions. Others work too.
func regions() []string {
	return strings.Fields("af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1 " +
		"ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-7 ca-central-1 ca-west-1 eu-central-1 eu-central-2 eu-north-1 " +
		"eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 mx-central-1 sa-east-1 us-east-1 " +
		"us-east-2 us-west-1 us-west-2")
}

// unknownNameError is an error about a name that does not exist in the cloud.
type unknownNameError struct {
	attribute, value, detail string
	near                     []string
}

func (u *unknownNameError) Error() string {
	message := u.attribute + " " + text.Quote(u.value) + ": " + u.detail
	if len(u.near) > 0 {
		message += "; did you mean " + strings.Join(u.near, ", ") + "?"
	}
	return message
}

func (u *unknownNameError) Unwrap() error     { return drivers.ErrRejected }
func (u *unknownNameError) NothingDone() bool { return true }
