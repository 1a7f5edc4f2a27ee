package text_test

import (
	"testing"

	"github.com/npctl/npctl/internal/text"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 files are", 1: "1 file is", 2: "2 files are", -1: "-1 files are"} {
		if got := text.Count(n, "file is", "files are"); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
