package convert

import (
	"os"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// The keys of images that become attributes of labels have an entry in the report, and their values no copy in a comment.
func TestLoginOfAzureImagesMovesToTheLabels(t *testing.T) {
	yaml, err := os.ReadFile("testdata/corpus/azure-everything.yaml")
	testutil.Must(t, err)
	text, r := converted(t, Input{YAML: yaml})
	wantLines(t, text, `admin_password = "Example-1"`, `ssh_public_key = "ssh-ed25519 AAAAown"`, `generate_password = true`, `# for winrm`,
		`image_id        = "MicrosoftWindowsServer:WindowsServer:2022-datacenter:latest"`)
	if n := strings.Count(text, "Example-1"); n != 1 {
		t.Errorf("the password occurs %d times:\n%s", n, text)
	}
	for _, e := range r.Report {
		if e.Verdict == Unsupported {
			t.Errorf("%s: %s", e.Path, e.Note)
		}
	}
}
