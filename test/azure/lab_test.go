//go:build integration

package azure

import (
	"encoding/pem"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/azure/azuretest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

// npctl is the path of the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// lab is a directory with a configuration, and a cloud that the processes reach by HTTPS.
type lab struct {
	*program.Place
	program.Recorder
	cloud *azuretest.Cloud
}

func newLab(t *testing.T, configuration string) *lab {
	t.Helper()
	l := &lab{Place: program.NewPlace(t, npctl), cloud: azuretest.New()}
	server := l.cloud.Serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if api := azuretest.APIOf(r.Method, r.URL.Path); api != "login" {
				l.Note(api)
			}
			next.ServeHTTP(w, r)
		})
	})
	t.Cleanup(server.Close)
	authority := filepath.Join(l.Dir, "authority.pem")
	testutil.WriteFile(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	l.Env = append(l.Env, "SSL_CERT_FILE="+authority, "AZURE_AUTHORITY_HOST="+server.URL, "AZURE_TOKEN_CREDENTIALS=EnvironmentCredential",
		"AZURE_TENANT_ID="+azuretest.Tenant, "AZURE_CLIENT_ID="+azuretest.Client, "AZURE_CLIENT_SECRET="+azuretest.Secret, "AZURE_SUBSCRIPTION_ID="+azuretest.Subscription)
	l.Secrets = []string{azuretest.Secret, "token-of-the-test", "signature-of-the-test"}
	l.Args = []string{"-var", "endpoint=" + server.URL}
	l.Write(configuration)
	return l
}

// numbers returns the number of objects with npctl's ownership tags by kind.
func (l *lab) numbers() map[string]int {
	found := map[string]int{}
	for name, tags := range l.cloud.Objects() {
		kind, _, _ := strings.Cut(name, " ")
		if tags["npctl_installation"] != "" {
			found[kind]++
		}
	}
	return found
}

func (l *lab) mustHave(want map[string]int) {
	l.T.Helper()
	testutil.Await(l.T, "the objects are complete", func() bool { return maps.Equal(l.numbers(), want) })
}

// nodes returns the numbers of objects of nodes.
func nodes(n int) map[string]int {
	if n == 0 {
		return map[string]int{}
	}
	return map[string]int{"vm": n, "nic": n, "ip": n, "disk": n}
}
