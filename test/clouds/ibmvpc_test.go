//go:build integration

package clouds

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/ibmvpc/ibmvpctest"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/program"
)

var ibm = cloud{
	open:    newIBM,
	node:    map[string]int{"instances": 1, "volumes": 1, "floating_ips": 1},
	late:    true,
	example: []string{"region=" + ibmvpctest.Region, "vpc=" + ibmvpctest.VPC, "image=ibm-debian-12-minimal-*", "key=ci"},
	change:  `profiles=["bx2-4x16"]`,
	changes: "profiles",
	unknown: []unknown{
		{[]string{"key=co", `profiles=["cx2-2x5"]`, `security_groups=["shh"]`}, []string{"cx2-2x4", "ssh", "keys", "npctl.hcl"}},
		{[]string{"vpc=cii"}, []string{"did you mean ci?"}},
	},
	onDemand: `
npctl {
  state "bolt" { path = "npctl.db" }
}
label "small" {}
provider "ibmvpc" "ibm" {
  region = "` + ibmvpctest.Region + `"
  vpc    = "` + ibmvpctest.VPC + `"
  rate   = 100
  cloud_image "debian" {
    filters         = { name = "ibm-debian-12-minimal-*", owner_type = "provider" }
    username        = "user"
    connection_port = 2222
  }
  pool "main" {
    keys              = ["ci"]
    host_key_checking = false
    public_ipv4       = true
    label "small" {
      image    = cloud_image.debian
      profiles = ["cx2-2x4"]
      tags     = { purpose = "ci" }
    }
  }
}
`,
	calls: map[string]callsOf{"POST instances": {100, 100}, "POST floating_ips": {100, 100}},
}

// vpc is a cloud behind a proxy.
type vpc struct {
	*lab
	server *ibmvpctest.Server
}

func newIBM(t *testing.T, configuration string) *lab {
	t.Helper()
	v := &vpc{server: ibmvpctest.New(t)}
	v.lab = &lab{Place: program.NewPlace(t, npctl), Recorder: &program.Recorder{Next: http.DefaultTransport, Name: callOf}, peer: v}
	proxy := (&gate.Gate{}).Serve(t, "ibm", v.server.URL, v.Recorder)
	for name, value := range v.server.Env() {
		v.Env = append(v.Env, name+"="+strings.Replace(value, v.server.URL, proxy, 1))
	}
	v.Secrets = []string{ibmvpctest.APIKey}
	v.Write(strings.ReplaceAll(configuration, "STORAGE", proxy+"/cos"))
	return v.lab
}

// callOf returns the method and the collection of a call, such as "POST instances".
func callOf(r *http.Request) string {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	collection, _, _ := strings.Cut(path, "/")
	return r.Method + " " + collection
}

// owned counts the objects with names of npctl.
func (v *vpc) owned() map[string]int {
	numbers := map[string]int{}
	count := func(kind string, names []string) {
		for _, name := range names {
			if strings.HasPrefix(name, "npctl-") || strings.Contains(name, " npctl-") {
				numbers[kind]++
			}
		}
	}
	for _, kind := range []string{"instances", "volumes", "floating_ips", "images"} {
		count(kind, v.server.Names(kind))
	}
	count("objects", v.server.Objects())
	return numbers
}

// remove deletes an instance. Its floating IP stays.
func (v *vpc) remove() {
	names := v.server.Names("instances")
	ours := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "npctl-") })
	v.server.Remove("instances", v.server.ID("instances", names[ours]))
}

func (v *vpc) changed() bool {
	all := true
	v.server.Modify("instances", func(d map[string]any) {
		if name, _ := d["name"].(string); strings.HasPrefix(name, "npctl-") && d["memory"] != int64(16) {
			all = false
		}
	})
	return all
}

// foreign creates objects of another user and returns a check that they remain.
func (v *vpc) foreign() (stay func()) {
	instance := v.server.Instance("np0000000001")
	v.server.Volume("data", instance)
	v.server.FloatingIP("theirs", instance)
	v.server.Image("theirs")
	v.server.PutObject("theirs.qcow2", []byte("x"))
	want := func() [][]string {
		var all [][]string
		for _, kind := range []string{"instances", "volumes", "floating_ips", "images"} {
			all = append(all, slices.DeleteFunc(v.server.Names(kind), func(name string) bool { return strings.HasPrefix(name, "npctl-") }))
		}
		return append(all, slices.DeleteFunc(v.server.Objects(), func(name string) bool { return strings.Contains(name, "npctl-") }))
	}
	before := want()
	return func() {
		v.T.Helper()
		if now := want(); !slices.EqualFunc(before, now, slices.Equal[[]string]) {
			v.T.Errorf("objects of another user were %q and are %q", before, now)
		}
	}
}

func (v *vpc) shows(t *testing.T, n resources.Node) {
	t.Helper()
	if n.Region != ibmvpctest.Region || n.Zone == "" || !slices.ContainsFunc(v.server.Names("instances"), func(name string) bool { return v.server.ID("instances", name) == n.ExternalID }) {
		t.Errorf("the cloud has the instances %q, npctl %+v", v.server.Names("instances"), n)
	}
}
