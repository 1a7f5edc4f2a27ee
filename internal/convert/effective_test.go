package convert

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

func environmentOf(name string) (string, bool) {
	if name == "NODEPOOL_WEB_PORT" {
		return "8005", true
	}
	return strings.ToLower(name), strings.HasPrefix(name, "NODEPOOL_")
}

// effectiveCorpus returns the values in effect of a file of the corpus with its secure file.
func effectiveCorpus(t *testing.T, name string, drivers map[string]schema.Driver) model {
	t.Helper()
	in := Input{Name: name, YAML: read(t, "testdata/corpus/"+name+".yaml"), Drivers: drivers}
	if secure := "testdata/corpus/" + name + ".secure.yaml"; exists(secure) {
		in.Secure = read(t, secure)
	}
	m, err := effectiveModel(in, environmentOf)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

func effectiveText(t *testing.T, main, secure string) model {
	t.Helper()
	m, err := effectiveModel(Input{YAML: []byte(main), Secure: []byte(secure), Drivers: schemas()}, nil)
	testutil.Must(t, err)
	return m
}

// recorded are the lines of a model with path, attribute of npctl and value.
func (m model) recorded() []string {
	var lines []string
	for _, path := range sortedKeys(m) {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s", path, m[path].attr, strings.ReplaceAll(m[path].Text, "\n", `\n`)))
	}
	return lines
}

const recordedDir = "testdata/effective/"

// TestEffectiveValuesAreRecorded is independent of the tables: the values and their attributes are those of the reader of its
// own that npctl convert had before the tables. NPCTL_UPDATE=1 records the present ones; then verify each changed line with Nodepool's
// code or documentation.
func TestEffectiveValuesAreRecorded(t *testing.T) {
	for _, file := range recordedFiles(t) {
		lines := effectiveCorpus(t, file, schemas()).recorded()
		if os.Getenv("NPCTL_UPDATE") != "" {
			testutil.Must(t, os.WriteFile(recordedDir+file+".tsv", []byte(strings.Join(lines, "\n")+"\n"), 0o644))
			continue
		}
		want := strings.Split(strings.TrimSpace(string(read(t, recordedDir+file+".tsv"))), "\n")
		for _, line := range lines {
			if !slices.Contains(want, line) {
				t.Errorf("%s: not recorded: %s", file, line)
			}
		}
		for _, line := range want {
			if !slices.Contains(lines, line) {
				t.Errorf("%s: recorded, and not in effect: %s", file, line)
			}
		}
	}
}

func recordedFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(recordedDir + "*.tsv")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d recorded files: %v", len(files), err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".tsv")
	}
	return files
}

// TestRecordedValuesHoldEveryKey changes each key and each default in the tables of the drivers, one at a time.
func TestRecordedValuesHoldEveryKey(t *testing.T) {
	all := map[string][]string{}
	for _, file := range recordedFiles(t) {
		all[file] = strings.Split(strings.TrimSpace(string(read(t, recordedDir+file+".tsv"))), "\n")
	}
	changes := 0
	for kind, d := range schemas() {
		for _, table := range tablesIn(d.Nodepool) {
			for _, k := range *table {
				for _, changed := range wrongKeys(k) {
					changes++
					if wrong := withKey(d, k, changed); !detected(t, kind, wrong, all) {
						t.Errorf("%s: no recorded value detects %+v", kind, changed)
					}
				}
			}
		}
	}
	if changes < 200 {
		t.Errorf("only %d changes", changes)
	}
}

func tablesIn(n *schema.Nodepool) []*[]schema.NodepoolKey {
	return []*[]schema.NodepoolKey{&n.Provider, &n.Image, &n.CloudImage, &n.Pool, &n.Label, &n.Node}
}

// withKey returns a driver with another key in all tables that have the first one.
func withKey(d schema.Driver, from, to schema.NodepoolKey) schema.Driver {
	copied := *d.Nodepool
	for _, table := range tablesIn(&copied) {
		*table = slices.Clone(*table)
		for i, k := range *table {
			if k.Key == from.Key && k.Attr == from.Attr && k.For == from.For && k.Default == from.Default {
				(*table)[i] = to
			}
		}
	}
	d.Nodepool = &copied
	return d
}

// wrongKeys returns keys with one mistake each.
func wrongKeys(k schema.NodepoolKey) []schema.NodepoolKey {
	if k.Attr == "" || k.Partial {
		return nil
	}
	other := k
	other.Key += "x"
	wrong := []schema.NodepoolKey{other}
	if k.Default != "" && k.Default != schema.NpctlDefault {
		other := k
		other.Default = map[string]string{"true": "false", "false": "true"}[k.Default]
		if other.Default == "" {
			other.Default = "7" + k.Default
		}
		wrong = append(wrong, other)
	}
	return wrong
}

// detected reports whether the values of providers of a driver differ from those of a file.
func detected(t *testing.T, kind string, d schema.Driver, all map[string][]string) bool {
	for file, lines := range all {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(line, ".driver\t\t"+kind) }) {
			continue
		}
		m := effectiveCorpus(t, file, map[string]schema.Driver{kind: d})
		for _, line := range m.recorded() {
			if !slices.Contains(lines, line) {
				return true
			}
		}
	}
	return false
}

// TestTablesNameAttributes verifies that each counterpart is an attribute of its block.
func TestTablesNameAttributes(t *testing.T) {
	tables := map[string]driverTables{"language": {provider: settingsTable, pool: tenantTable, label: labelTable, image: imageTable, cloudImage: dibTable, node: tlsTable}}
	maps.Copy(tables, newTranslator(schemas()).drivers)
	for kind, d := range tables {
		for _, tab := range []table{d.provider, d.ofPools, d.pool, d.label, d.node, d.image, d.cloudImage, d.imageOfLabels, d.cloudOfLabels} {
			for _, attr := range tab.names {
				if !tab.has(attr) {
					t.Errorf("%s: there is no attribute %s", kind, attr)
				}
			}
		}
	}
}

func TestConnectionNeedsServers(t *testing.T) {
	for yaml, want := range map[string]string{"zookeeper-timeout: 7": "", "zookeeper-timeout: 7\nzookeeper-servers: [{host: a}]": "7"} {
		if m := effectiveText(t, yaml, ""); m["zookeeper-timeout"].Text != want {
			t.Errorf("%q: %v", yaml, m["zookeeper-timeout"])
		}
	}
	m := effectiveText(t, "zookeeper-servers: [{host: a}]", "\n\n\nzookeeper-servers: [{host: b}]")
	if v := m["zookeeper-servers"]; v.Line != 0 || v.Text != `["b:2281"]` {
		t.Errorf("servers of the secure file: %+v", v)
	}
}

func TestEffectiveValuesAreThoseOfNodepool(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"inherited-falsy": {
			`diskimage "kid".pause`:               "true", // false does not override
			`diskimage "kid".rebuild-age`:         "600",
			`diskimage "kid".elements`:            `["vm"]`,
			`diskimage "kid".delete-after-upload`: "false", // but here it does
			`diskimage "kid".formats`:             `["raw","vhd"]`,
			`diskimage "kid".username`:            "ci",
			`diskimage "kid".metadata`:            "{}", // not inherited
			`diskimage "kid".release`:             "12",
			`diskimage "other".metadata`:          `{"b":"z"}`,
			`diskimage "other".env-vars`:          `{"ONE":"1","TWO":""}`,
			`diskimage "parent".pause`:            absent,
		},
		"image-parents": {
			`diskimage "el9-big".elements`:    `["vm","growroot","epel","centos-minimal","big-cache"]`,
			`diskimage "el9-big".env-vars`:    `{"CACHE":"all","DIB_CHECKSUM":"0","DIB_EPEL_DISABLED":"1","TMPDIR":"/scratch"}`,
			`diskimage "el9-big".rebuild-age`: "604800",
			`diskimage "el9-big".release`:     "9-stream",
		},
		"secure-values": {
			"zookeeper-servers":        `["[2001:db8::5]:2381","zk-a.example.net:2381"]`,
			"zookeeper-tls.cert":       "/secret/client.pem",
			`diskimage "tok".env-vars`: `{"A":"base","B":"2","REG_PASSWORD":"p\"a$${ss}%{word}","REG_USER":"other"}`,
		},
		"scalars": {
			`label "24.04".min-ready`:                                      "8", // octal
			`diskimage "24.04".release`:                                    "24.04",
			`diskimage "24.04".delete-after-upload`:                        "true",
			`diskimage "f41.x86_64".pause`:                                 "false",
			`diskimage "f41.x86_64".rebuild-age`:                           "86400",
			`provider "c_1".rate`:                                          "2",
			`provider "c_1".launch-timeout`:                                "900",
			`provider "c_1".pool "1".max-servers`:                          "1000",
			`provider "c_1".pool "1".label "24.04".config-drive`:           "true",
			`provider "c_1".pool "1".label "24.04".key-name`:               "007",
			`provider "c_1".pool "1".label "f41.x86_64".auto-floating-ip`:  "true",
			`provider "c_1".pool "1".label "f41.x86_64".host-key-checking`: "true",
		},
		"static-windows": {
			`provider "desk".pool "windows".node "zuul@win2.example.net:22".connection-type`: "winrm",
			`provider "desk".pool "others".node "zuul@sw1.example.net:8022".host-key`:        `["ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBJMKrsaC+xyychdiIsP2WdWR7ZUzi8pBaPPzXHWtfBlPc2KEfmhMCRZff3dVK/a7majdhUCmGFL7eF5HC+23PMY=","ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIF1NIiQcDs8Z12vlnEz5KTI7OMGh4OGexgWfGohIE9DJ"]`,
			`provider "desk".pool "others".priority`:                                         "50",
		},
		"static-merges": {
			`provider "rack".pool "main".node "builder@rack-03.example.net:22".max-parallel-jobs`: "1",
			`provider "rack".pool "main".node "builder@rack-01.example.net:22".max-parallel-jobs`: "2",
		},
		"userdata": {
			`provider "c".pool "main".label "ud".networks`:           `["other","third"]`,
			`provider "c".pool "main".label "bfv".networks`:          "[]",
			`provider "c".pool "main".label "bfv".host-key-checking`: "false",
			`provider "c".pool "main".label "bfv".volume-size`:       "50",
		},
		"upload-settings": {
			`provider "un".diskimage "plain".meta`:            `{"hw_qemu_guest_agent":"False","properties":"yes","tier":"gold"}`,
			`provider "un".diskimage "plain".connection-port`: "830",
			`provider "deux".diskimage "second".pause`:        "true",
		},
		"environment": {`provider "c".cloud`: "nodepool_cloud", "images-dir": "nodepool_images"},
		"obsolete-keys": {
			`provider "house-b".pool "new".label "el8-build".flavor-name`: "m1.16c", // the second entry
			`provider "house-a".pool "old".max-servers`:                   absent,
		},
		"cloud-images": {
			`label "b".min-ready`: "0",
			`provider "ids".cloud-image "by-own-name".image-name`:  "by-own-name",
			`provider "ids".cloud-image "by-name".connection-port`: "22",
			`provider "ids".pool "rest".priority`:                  "5",
		},
	} {
		m := effectiveCorpus(t, name, schemas())
		for path, text := range want {
			got, ok := m[path]
			if !ok {
				got.Text = absent
			}
			if got.Text != text {
				t.Errorf("%s: %s is %s, want %s", name, path, got.Text, text)
			}
		}
	}
}

// TestWrongNumbersDifferFromEveryNumber needs no error of Convert: the environment may have such a value.
func TestWrongNumbersDifferFromEveryNumber(t *testing.T) {
	in := Input{Name: "n.yaml", YAML: []byte("labels:\n- {name: l, min-ready: b}\nproviders:\n- {name: p, cloud: c, rate: often}\n"), Drivers: schemas()}
	c, err := Compare(in, nil, resources.Desired{})
	testutil.Must(t, err)
	differences := map[string]Difference{}
	for _, d := range c.Differences {
		differences[d.Path] = d
	}
	for path, want := range map[string]Difference{
		`label "l".min-ready`: {Nodepool: `"b" (not a number)`, Line: 2},
		`provider "p".rate`:   {Nodepool: `"often" (not a number)`, Line: 4},
		`provider "p".cloud`:  {Nodepool: "c", Line: 4},
	} {
		if got := differences[path]; got.Nodepool != want.Nodepool || got.Line != want.Line || got.Npctl != absent {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

// TestScalarsAreThoseOfPyYAML includes those of YAML 1.1.
func TestScalarsAreThoseOfPyYAML(t *testing.T) {
	for text, want := range map[string]string{"010": "8", "0x10": "16", "1_000": "1000", "1:30": "90", "-1:30": "-90", "9.10": "9.1", "1.": "1.0", "on": "true", "No": "false", "y": "y", "": "", "1e3": "1e3"} {
		if got := scalarOf(text).pythonText(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// String describes the difference without values that may be secret.
func (d Difference) String() string {
	nodepool, npctl := d.Nodepool, d.Npctl
	if d.Secret() {
		nodepool, npctl = "(sensitive)", "(sensitive)"
	}
	text := fmt.Sprintf("%s: Nodepool has %s, npctl has %s", d.Path, nodepool, npctl)
	if d.Line > 0 {
		text = fmt.Sprintf("line %d: %s", d.Line, text)
	}
	return text
}
