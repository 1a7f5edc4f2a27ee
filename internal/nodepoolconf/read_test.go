package nodepoolconf

import (
	"github.com/npctl/npctl/resources"

	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

const corpus = "../convert/testdata/corpus"

func environmentOf(name string) (string, bool) {
	if name == "NODEPOOL_WEB_PORT" {
		return "8005", true
	}
	return strings.ToLower(name), strings.HasPrefix(name, "NODEPOOL_")
}

// readCorpus reads a file of the corpus with its secure file.
func readCorpus(t *testing.T, name string) Model {
	t.Helper()
	main, err := os.ReadFile(filepath.Join(corpus, name+".yaml"))
	testutil.Must(t, err)
	secure, err := os.ReadFile(filepath.Join(corpus, name+".secure.yaml"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	m, err := Read(main, secure, environmentOf)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

func TestConnectionNeedsServers(t *testing.T) {
	for yaml, want := range map[string]string{"zookeeper-timeout: 7": "", "zookeeper-timeout: 7\nzookeeper-servers: [{host: a}]": "7"} {
		m, err := Read([]byte(yaml), nil, nil)
		if err != nil || m["zookeeper-timeout"].Text != want {
			t.Errorf("%q: %v, error %v", yaml, m["zookeeper-timeout"], err)
		}
	}
	m, err := Read([]byte("zookeeper-servers: [{host: a}]"), []byte("\n\n\nzookeeper-servers: [{host: b}]"), nil)
	if v := m["zookeeper-servers"]; err != nil || v.Line != 0 || v.Text != `["b:2281"]` {
		t.Errorf("servers of the secure file: %+v, error %v", v, err)
	}
}

func TestEveryFileOfTheCorpusIsRead(t *testing.T) {
	files, err := filepath.Glob(corpus + "/*.yaml")
	testutil.Must(t, err)
	files = slicesWithout(files, ".secure.yaml")
	if len(files) < 30 {
		t.Fatalf("the corpus has %d files", len(files))
	}
	for _, file := range files {
		if m := readCorpus(t, strings.TrimSuffix(filepath.Base(file), ".yaml")); len(m) < 5 {
			t.Errorf("%s: %d attributes", file, len(m))
		}
	}
}

func slicesWithout(files []string, suffix string) (kept []string) {
	for _, file := range files {
		if !strings.HasSuffix(file, suffix) {
			kept = append(kept, file)
		}
	}
	return kept
}

func TestModelIsThatOfNodepool(t *testing.T) {
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
		m := readCorpus(t, name)
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

func TestMistakesHaveALine(t *testing.T) {
	for input, want := range map[string]string{
		"[1]":                                "must be a mapping",
		"labels: [{min-ready: 1}]":           "line 1: an item of labels has no name",
		"diskimages: [{name: a, parent: b}]": `line 1: there is no diskimage "b"`,
		"diskimages: [{name: a, parent: a}]": "cycle",
		"a: &a [*a]":                         "nested more than 100 levels",
		"a: [":                               "yaml:",
		"<<: 1":                              "needs a mapping",
		"providers: [{name: p, diskimages: [{name: x}]}]": `there is no diskimage "x"`,
		"a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e]": "more than 200000 values",
	} {
		if _, err := Read([]byte(input), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", input, err, want)
		}
	}
}

// TestMistakesInOnePlaceLeaveTheRestComparable includes labels and numbers.
func TestMistakesInOnePlaceLeaveTheRestComparable(t *testing.T) {
	input := `labels:
- {name: l, min-ready: b}
providers:
- name: p
  pools:
  - name: m
    labels:
    - {name: l}
    - {name: other}
`
	m, err := Read([]byte(input), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	differences := map[string]Difference{}
	for _, d := range Compare(m, resources.Desired{}).Differences {
		differences[d.Path] = d
	}
	for path, want := range map[string]Difference{
		`label "l".min-ready`:                         {Nodepool: `"b" (not a number)`, Line: 2},
		`provider "p".pool "m".label "l"`:             {Nodepool: "an error: a label needs a diskimage or a cloud-image", Line: 8},
		`provider "p".pool "m".label "other"`:         {Nodepool: `an error: there is no label "other"`, Line: 9},
		`provider "p".pool "m".ignore-provider-quota`: {Nodepool: "false", Line: 6},
	} {
		if got := differences[path]; got.Nodepool != want.Nodepool || got.Line != want.Line || got.Npctl != absent {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}
