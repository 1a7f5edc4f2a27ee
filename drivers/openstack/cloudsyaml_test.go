package openstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
)

// place writes files below a folder and returns the sources in which openstack tools would find them.
func place(t *testing.T, env map[string]string, files map[string]string) configSources {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testutil.WriteFile(t, path, text)
	}
	getenv := func(name string) string { return strings.ReplaceAll(env[name], "$DIR", dir) }
	return configSources{getenv: getenv, folders: []string{filepath.Join(dir, "cwd"), filepath.Join(dir, "user"), filepath.Join(dir, "etc")}}
}

const simpleCloud = `
clouds:
  lab:
    region_name: one
    auth: {auth_url: "https://id.example.com/v3", username: me, password: s3cret, project_name: ci, user_domain_name: people, project_domain_name: work}
`

func labAuth() gophercloud.AuthOptions {
	return gophercloud.AuthOptions{
		IdentityEndpoint: "https://id.example.com/v3", Username: "me", Password: "s3cret", DomainName: "people", TenantName: "ci", AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectName: "ci", DomainName: "work"},
	}
}

func TestEntryIsReadLikeOpenstacksdk(t *testing.T) {
	changed := func(change func(*gophercloud.AuthOptions)) gophercloud.AuthOptions {
		auth := labAuth()
		change(&auth)
		return auth
	}
	for name, test := range map[string]struct {
		cloud, region string
		env           map[string]string
		files         map[string]string
		wantAuth      gophercloud.AuthOptions
		wantRegion    string
		wantInterface gophercloud.Availability
		wantFormat    string
	}{
		"plain": {cloud: "lab", files: map[string]string{"cwd/clouds.yaml": simpleCloud}, wantAuth: labAuth(), wantRegion: "one"},
		"first folder wins": {cloud: "lab", wantAuth: labAuth(), wantRegion: "one",
			files: map[string]string{"user/clouds.yaml": simpleCloud, "etc/clouds.yaml": "clouds: {lab: {}}"}},
		"OS_CLIENT_CONFIG_FILE goes first": {cloud: "lab", wantAuth: labAuth(), wantRegion: "one",
			env:   map[string]string{"OS_CLIENT_CONFIG_FILE": "$DIR/else/where.yaml"},
			files: map[string]string{"else/where.yaml": simpleCloud, "cwd/clouds.yaml": "clouds: {lab: {}}"}},
		"region of the block wins": {cloud: "lab", region: "two", files: map[string]string{"cwd/clouds.yaml": simpleCloud}, wantAuth: labAuth(), wantRegion: "two"},
		"OS_REGION_NAME does not move a named cloud": {cloud: "lab", env: map[string]string{"OS_REGION_NAME": "mars"},
			files: map[string]string{"cwd/clouds.yaml": simpleCloud}, wantAuth: labAuth(), wantRegion: "one"},
		"secure.yaml in another folder": {cloud: "lab", wantRegion: "one",
			files:    map[string]string{"cwd/clouds.yaml": simpleCloud, "etc/secure.yaml": "clouds: {lab: {auth: {password: better}}}"},
			wantAuth: changed(func(a *gophercloud.AuthOptions) { a.Password = "better" })},
		"digits are text": {cloud: "lab", wantRegion: "one",
			files:    map[string]string{"cwd/clouds.yaml": simpleCloud, "cwd/secure.yaml": "clouds: {lab: {auth: {password: 0123}}}"},
			wantAuth: changed(func(a *gophercloud.AuthOptions) { a.Password = "0123" })},
		"first of the regions, with its values": {cloud: "lab", wantRegion: "r1", wantInterface: gophercloud.AvailabilityInternal,
			files: map[string]string{"cwd/clouds.yaml": strings.Replace(simpleCloud, "region_name: one",
				"regions: [{name: r1, values: {interface: internal, auth: {project_name: ci-r1}}}, r2]", 1)},
			wantAuth: changed(func(a *gophercloud.AuthOptions) { a.TenantName, a.Scope.ProjectName = "ci-r1", "ci-r1" })},
		"another of the regions": {cloud: "lab", region: "r2", wantRegion: "r2", wantAuth: labAuth(),
			files: map[string]string{"cwd/clouds.yaml": strings.Replace(simpleCloud, "region_name: one", "regions: [r1, r2]", 1)}},
		"profile of clouds-public.yaml": {cloud: "lab", wantRegion: "p", wantFormat: "raw",
			files: map[string]string{
				"cwd/clouds.yaml":        "clouds: {lab: {profile: pub, auth: {username: me, password: s3cret, project_name: ci, user_domain_name: people, project_domain_name: work}}}",
				"etc/clouds-public.yaml": `public-clouds: {pub: {region_name: p, image_format: raw, auth: {auth_url: "https://id.example.com/v3"}}}`,
			}, wantAuth: labAuth()},
		"profile known by heart": {cloud: "lab", wantRegion: "ca-ymq-1", wantFormat: "raw",
			files:    map[string]string{"cwd/clouds.yaml": "clouds: {lab: {profile: vexxhost, auth: {username: me, password: s3cret, project_name: ci, user_domain_name: people, project_domain_name: work}}}"},
			wantAuth: changed(func(a *gophercloud.AuthOptions) { a.IdentityEndpoint = "https://auth.vexxhost.net/v3" })},
		"old spellings and no domains": {cloud: "lab",
			files: map[string]string{"cwd/clouds.yaml": `clouds: {lab: {auth: {auth-url: "https://id.example.com/v3", username: me, password: s3cret, tenant_name: ci}}}`},
			wantAuth: changed(func(a *gophercloud.AuthOptions) {
				a.DomainName, a.DomainID = "", "default"
				a.Scope.DomainName, a.Scope.DomainID = "", "default"
			})},
		"application credential without its project": {cloud: "lab",
			files: map[string]string{"cwd/clouds.yaml": `clouds: {lab: {auth_type: v3applicationcredential, auth: {auth_url: "https://id.example.com/v3", application_credential_id: abc, application_credential_secret: s3cret, project_name: ci}}}`},
			wantAuth: gophercloud.AuthOptions{IdentityEndpoint: "https://id.example.com/v3", ApplicationCredentialID: "abc",
				ApplicationCredentialSecret: "s3cret", AllowReauth: true}},
		"token": {cloud: "lab",
			files: map[string]string{"cwd/clouds.yaml": `clouds: {lab: {auth_type: token, auth: {auth_url: "https://id.example.com/v3", token: gAAAA, project_id: p1}}}`},
			wantAuth: gophercloud.AuthOptions{IdentityEndpoint: "https://id.example.com/v3", TokenID: "gAAAA", TenantID: "p1",
				Scope: &gophercloud.AuthScope{ProjectID: "p1"}}},
		"environment": {cloud: "envvars", wantRegion: "one", wantInterface: gophercloud.AvailabilityAdmin, wantAuth: labAuth(),
			env: map[string]string{"OS_AUTH_URL": "https://id.example.com/v3", "OS_USERNAME": "me", "OS_PASSWORD": "s3cret", "OS_PROJECT_NAME": "ci",
				"OS_USER_DOMAIN_NAME": "people", "OS_PROJECT_DOMAIN_NAME": "work", "OS_REGION_NAME": "one", "OS_INTERFACE": "admin"}},
		"anchors and merge keys": {cloud: "lab", region: "one", wantRegion: "one", wantAuth: labAuth(),
			files: map[string]string{"cwd/clouds.yaml": `
x: &base {auth_url: "https://id.example.com/v3", username: me, project_name: other, user_domain_name: people, project_domain_name: work}
clouds: {lab: {auth: {<<: *base, password: s3cret, project_name: ci}}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := loadCloud(test.cloud, test.region, place(t, test.env, test.files))
			testutil.Must(t, err)
			if diff := cmp.Diff(test.wantAuth, got.auth); diff != "" {
				t.Errorf("auth (-want +got):\n%s", diff)
			}
			if test.wantInterface == "" {
				test.wantInterface = gophercloud.AvailabilityPublic
			}
			if got.region != test.wantRegion || got.availability != test.wantInterface || got.imageFormat != test.wantFormat {
				t.Errorf("region %q, interface %q, format %q; want %q, %q, %q", got.region, got.availability, got.imageFormat, test.wantRegion, test.wantInterface, test.wantFormat)
			}
		})
	}
}

func TestMistakesInCloudsYAMLAreExplained(t *testing.T) {
	for name, test := range map[string]struct {
		cloud, region string
		files         map[string]string
		want          []string
	}{
		"no file":         {cloud: "lab", want: []string{`cloud "lab": no clouds.yaml found`, "cwd/clouds.yaml", "etc/clouds.yaml"}},
		"no environment":  {cloud: "envvars", want: []string{"OS_AUTH_URL is not set"}},
		"no such entry":   {cloud: "lap", files: map[string]string{"user/clouds.yaml": simpleCloud}, want: []string{`"lap"`, "user/clouds.yaml", "did you mean lab?"}},
		"no such region":  {cloud: "lab", region: "r3", files: map[string]string{"cwd/clouds.yaml": strings.Replace(simpleCloud, "region_name: one", "regions: [r1, r2]", 1)}, want: []string{`"r3"`, "r1, r2"}},
		"no password":     {cloud: "lab", files: map[string]string{"cwd/clouds.yaml": strings.Replace(simpleCloud, "password: s3cret,", "", 1)}, want: []string{"no password", "secure.yaml"}},
		"no auth":         {cloud: "lab", files: map[string]string{"cwd/clouds.yaml": "clouds: {lab: {}}"}, want: []string{"no auth_url"}},
		"unknown profile": {cloud: "lab", files: map[string]string{"cwd/clouds.yaml": "clouds: {lab: {profile: nowhere}}"}, want: []string{`"nowhere"`, "clouds-public.yaml", "auth_url"}},
		"other auth_type": {cloud: "lab", files: map[string]string{"cwd/clouds.yaml": strings.Replace(simpleCloud, "region_name: one", "auth_type: v3oidcpassword", 1)}, want: []string{"v3oidcpassword", "v3applicationcredential"}},
		"not YAML":        {cloud: "lab", files: map[string]string{"cwd/clouds.yaml": "clouds: [\n"}, want: []string{"cwd/clouds.yaml"}},
		"a list":          {cloud: "lab", files: map[string]string{"cwd/clouds.yaml": "- lab"}, want: []string{"mapping"}},
		"bomb":            {cloud: "lab", files: map[string]string{"cwd/clouds.yaml": bomb()}, want: []string{"cwd/clouds.yaml"}},
		"no CA file":      {cloud: "lab", files: map[string]string{"cwd/clouds.yaml": strings.Replace(simpleCloud, "region_name: one", "cacert: /does/not/exist.pem", 1)}, want: []string{"/does/not/exist.pem"}},
		"empty name":      {cloud: "", want: []string{"envvars"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadCloud(test.cloud, test.region, place(t, nil, test.files))
			if !errors.Is(err, drivers.ErrRejected) {
				t.Fatalf("error is %v, want ErrRejected", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error holds the password: %v", err)
			}
		})
	}
}

// bomb returns a small file that would be huge with all aliases expanded.
func bomb() string {
	text := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		ref := "*" + string(c-1)
		text += string(c) + ": &" + string(c) + " [" + strings.Repeat(ref+",", 9) + ref + "]\n"
	}
	return text
}

func TestTLSOfAnEntry(t *testing.T) {
	ca := selfSigned(t)
	path := filepath.Join(t.TempDir(), "ca.pem")
	testutil.Must(t, os.WriteFile(path, ca, 0o600))
	got, err := loadCloud("lab", "", place(t, nil, map[string]string{"cwd/clouds.yaml": strings.Replace(simpleCloud, "region_name: one", "cacert: "+path, 1)}))
	if err != nil || got.tls.RootCAs == nil || got.tls.InsecureSkipVerify {
		t.Errorf("with cacert: %+v, %v; want that CA and verification", got.tls, err)
	}
	for _, off := range []string{"verify: false", "verify: 'False'", "insecure: true"} {
		got, err := loadCloud("lab", "", place(t, nil, map[string]string{"cwd/clouds.yaml": strings.Replace(simpleCloud, "region_name: one", off, 1)}))
		if err != nil || !got.tls.InsecureSkipVerify {
			t.Errorf("with %s: %v; want no verification", off, err)
		}
	}
}

func selfSigned(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testutil.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
