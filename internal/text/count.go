package text

import "fmt"

// Count formats a number with its noun, or with other words that agree with it: "1 file is", "2 files are".
func Count[N int | int64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
