package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// A configuration from anyone reads nothing outside of its repository, in no way, and errors do not tell what is there.
func TestBoundaryHidesAllOtherFiles(t *testing.T) {
	top := t.TempDir()
	write := func(path, text string) {
		full := filepath.Join(top, path)
		testutil.Must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		testutil.Must(t, os.WriteFile(full, []byte(text), 0o600))
	}
	write("secret/key", "hidden")
	write("repository/common/motd", "hello")
	write("repository/fleet/here", "here")
	testutil.Must(t, os.Symlink("../../secret/key", filepath.Join(top, "repository/fleet/link")))
	testutil.Must(t, os.Symlink("../../secret", filepath.Join(top, "repository/fleet/directory")))
	for expression, readable := range map[string]bool{
		`file("here")`: true, `file("../common/motd")`: true, `fileexists("here")`: true, `fileset("../common", "*")`: true, `env("HOME", "default")`: true,
		`fileexists("missing")`:    true,
		`file("../../secret/key")`: false, `file("` + filepath.Join(top, "secret/key") + `")`: false, `file("link")`: false, `file("directory/key")`: false,
		`filebase64("link")`: false, `filesha256("link")`: false, `fileexists("link")`: false, `fileexists("../../secret/none")`: false,
		`fileexists("../../secret/key")`: false, `fileset("../../secret", "*")`: false, `fileset("directory", "*")`: false, `fileset(".", "../../secret/*")`: false,
		`templatefile("link", {})`: false, `env("HOME")`: false,
	} {
		write("repository/fleet/npctl.hcl", "locals { x = "+expression+" }\nlabel \"x\" {}\noutput \"x\" { value = jsonencode(local.x) }\n")
		_, diags := Load(Options{Path: filepath.Join(top, "repository/fleet"), Boundary: filepath.Join(top, "repository"),
			LookupEnv: func(string) (string, bool) { return "hidden", true }})
		if diags.HasErrors() == readable {
			t.Errorf("%s: %v", expression, diags)
		}
		for _, d := range diags {
			if text := d.Summary + d.Detail; strings.Contains(text, "hidden") || !readable && !strings.Contains(text, "is outside of") && !strings.Contains(text, "no environment") && d.Summary != "Empty configuration" {
				t.Errorf("%s: %s: %s", expression, d.Summary, d.Detail)
			}
		}
	}
	write("repository/fleet/npctl.hcl", "locals { x = fileset(\".\", \"*\") }\nlabel \"x\" {}\noutput \"x\" { value = jsonencode(local.x) }\n")
	result, diags := Load(Options{Path: filepath.Join(top, "repository/fleet"), Boundary: filepath.Join(top, "repository")})
	if got := result.Outputs["x"].Value; diags.HasErrors() || strings.Contains(got.AsString(), "link") || !strings.Contains(got.AsString(), "here") {
		t.Errorf("files: %#v, %v", got, diags)
	}
}
