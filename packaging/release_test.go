package packaging_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// TestReleaseVariableExists checks the variable of -X, because the linker ignores an unknown name.
func TestReleaseVariableExists(t *testing.T) {
	var program strings.Builder
	files, err := filepath.Glob("../cmd/npctl/*.go")
	testutil.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		testutil.Must(t, err)
		program.Write(text)
	}
	set := regexp.MustCompile(`-X main\.(\w+)=`)
	for _, file := range []string{"../Makefile", "docker/Dockerfile"} {
		text := testutil.ReadFile(t, file)
		found := set.FindStringSubmatch(text)
		if found == nil {
			t.Errorf("%s sets no release", file)
			continue
		}
		if !regexp.MustCompile(`(?m)^var ` + found[1] + ` string$`).MatchString(program.String()) {
			t.Errorf("%s sets main.%s, which is no variable of a string", file, found[1])
		}
	}
}
