// Package doctest checks README.md and docs/ against npctl: links work, configurations are valid, commands and options
// exist, and sessions show the real output.
//
// Markup in a page:
//
//	```hcl complete            a whole configuration
//	```hcl openstack label     the content of such a block; see contexts
//	```hcl                     top-level blocks that need others around them
//	<!-- session: NAME -->     the console block below is run, in one directory for all blocks of that NAME in a page
//	<!-- session: NAME, file: F -->  the block below is written to F there
package doctest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

var (
	root = filepath.Join("..", "..")
	// npctl is the program under test, built once by TestMain.
	npctl string
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "npctl-doctest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	npctl = filepath.Join(dir, "npctl")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", npctl, "./cmd/npctl")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build npctl: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// fence is a block of code in a page.
type fence struct {
	page    string // path below the root
	line    int    // of its first line of code, from 1
	kind    string // first word of the info string
	info    string // the rest
	session string // from the comment above
	file    string
	code    []string
}

func (f fence) String() string { return fmt.Sprintf("%s:%d", f.page, f.line) }

// pages lists all documentation pages of the project.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, dir := range []string{"docs", "test"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".md") {
				found = append(found, path)
			}
			return err
		})
		testutil.Must(t, err)
	}
	if len(found) < 15 {
		t.Fatalf("only %d pages found", len(found))
	}
	return found
}

func read(t *testing.T, page string) string {
	t.Helper()
	return testutil.ReadFile(t, filepath.Join(root, page))
}

var marker = regexp.MustCompile(`^<!-- session: ([^,]+?)(?:, file: (\S+))? -->$`)

// fences returns the blocks of code of a page, and the page without them.
func fences(t *testing.T, page string) (blocks []fence, prose string) {
	t.Helper()
	var open *fence
	var last []string
	var text strings.Builder
	for i, line := range strings.Split(read(t, page), "\n") {
		switch {
		case open != nil && strings.TrimSpace(line) == "```":
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.code = append(open.code, line)
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			kind, info, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "```"), " ")
			open = &fence{page: page, line: i + 2, kind: kind, info: info}
			if last != nil {
				open.session, open.file = last[1], last[2]
			}
		default:
			text.WriteString(line + "\n")
		}
		if strings.TrimSpace(line) != "" {
			last = marker.FindStringSubmatch(line)
		}
	}
	if open != nil {
		t.Errorf("%s: the block of code is not closed", open)
	}
	return blocks, text.String()
}

// output runs npctl and returns its output.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, failure bytes.Buffer
	cmd := exec.CommandContext(t.Context(), npctl, args...)
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		t.Fatalf("npctl %s: %v\n%s", strings.Join(args, " "), err, failure.String())
	}
	return out.String()
}
