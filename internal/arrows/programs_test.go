package arrows

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// starters are the packages of the binary that can start programs, with the words of docs/security.md, section "What a plan
// executes", for those that do it in a plan.
var starters = map[string]string{
	"github.com/npctl/npctl/internal/process":                       "", // of builders, hooks and qemu-img, which do not run in a plan
	"github.com/npctl/npctl/builders/zuul":                          "`token_command`",
	"github.com/npctl/npctl/drivers/external":                       "`command` of a provider `external`",
	"github.com/npctl/npctl/drivers/qemu":                           "`program` of a provider `qemu`",
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds":         "`credential_process`",
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity":              "`az`, `azd`",
	"github.com/pkg/browser":                                        "", // of azidentity's login in a browser, which npctl does not offer
	"cloud.google.com/go/auth/credentials/internal/externalaccount": "`external_account`",
	"golang.org/x/oauth2/google/externalaccount":                    "`external_account`",
	"cloud.google.com/go/auth/internal/transport/cert":              "`cert_provider_command`",
	"google.golang.org/api/internal/cert":                           "`cert_provider_command`",
	"github.com/googleapis/enterprise-certificate-proxy/client":     "proxy for client certificates",
	"k8s.io/client-go/plugin/pkg/client/auth/exec":                  "plugin for credentials (`exec`)",
	"github.com/npctl/npctl/cmd/npctl":                              "`git`",
}

// TestSecurityPageListsAllPrograms fails when a package that can start programs comes into the binary: say in the page when it
// does.
func TestSecurityPageListsAllPrograms(t *testing.T) {
	root := filepath.Join("..", "..")
	cmd := exec.Command("go", "list", "-deps", "-f", `{{$p := .ImportPath}}{{range .Imports}}{{if eq . "os/exec"}}{{$p}}{{end}}{{end}}`, "./cmd/npctl")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, name := range strings.Fields(string(out)) {
		found[name] = true
		words, known := starters[name]
		switch {
		case !known:
			t.Errorf("package %s can start programs: add it to starters, and to docs/security.md if it does so in a plan", name)
		case !strings.Contains(string(page), words):
			t.Errorf("docs/security.md does not name %s, which package %s starts", words, name)
		}
	}
	for name := range starters {
		if !found[name] {
			t.Errorf("package %s is not in the binary, or starts no programs", name)
		}
	}
}
