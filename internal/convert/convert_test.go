package convert

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/aws"
	"github.com/npctl/npctl/drivers/azure"
	"github.com/npctl/npctl/drivers/gce"
	"github.com/npctl/npctl/drivers/ibmvpc"
	"github.com/npctl/npctl/drivers/kubernetes"
	"github.com/npctl/npctl/drivers/metastatic"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/static"
	"github.com/npctl/npctl/resources/schema"
)

// small is the rest of a configuration around the providers that a test writes.
const small = `labels: [{name: debian}]
diskimages:
  - name: debian-12
    elements: [debian-minimal, vm]
providers:
  - name: cloud
    cloud: cloud
    diskimages: [{name: debian-12}]
`

// schemas are those of the drivers that Nodepool has.
func schemas() map[string]schema.Driver {
	return map[string]schema.Driver{
		"openstack": openstack.New().Schema(), "static": static.New().Schema(),
		"aws": aws.New().Schema(), "ibmvpc": ibmvpc.New().Schema(), "gce": gce.New().Schema(), "azure": azure.New().Schema(), "metastatic": metastatic.New().Schema(),
		"kubernetes": kubernetes.New().Schema(), "openshift": kubernetes.NewOpenShift().Schema(), "openshiftpods": kubernetes.NewOpenShiftPods().Schema(),
	}
}

// translated calls Convert with all drivers.
func translated(in Input) (*Result, error) {
	in.Drivers = schemas()
	return Convert(in)
}

func converted(t *testing.T, in Input) (string, *Result) {
	t.Helper()
	r, err := translated(in)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range r.Files {
		if f.Name != SecretsFile {
			all.Write(f.Data)
		}
	}
	return all.String(), r
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(line), " ")) {
			t.Errorf("the translation has no %q:\n%s", line, text)
		}
	}
}

func entryOf(t *testing.T, r *Result, path string) Entry {
	t.Helper()
	i := slices.IndexFunc(r.Report, func(e Entry) bool { return e.Path == path })
	if i < 0 {
		t.Fatalf("the report has no entry for %s:\n%s", path, r.Text(true))
	}
	return r.Report[i]
}

func TestDefaultsThatDifferAreWritten(t *testing.T) {
	text, _ := converted(t, Input{YAML: []byte(small + "    pools:\n      - name: main\n        labels: [{name: debian, diskimage: debian-12, flavor-name: small}]\n")})
	wantLines(t, text, `boot_timeout = "1m" # Nodepool's default`, `rate = 1 # Nodepool's default`,
		`auto_floating_ip = true # Nodepool's default`, `build_log_dir = "/var/log/nodepool/builds"`)
}

func TestRateIsInverse(t *testing.T) {
	for in, want := range map[string]string{"0.1": "10", "0.001": "1000", "2": "0.5", "0": "0", "3": "1 / 3", "0.3": "1 / 0.3", "12": "1 / 12"} {
		text, r := converted(t, Input{YAML: []byte(small + "    rate: " + in + "\n")})
		wantLines(t, text, "rate = "+want+"\n")
		if e := entryOf(t, r, "providers[cloud].rate"); e.Verdict != Changed || e.Line != 9 || !strings.HasPrefix(e.Link, guide) {
			t.Errorf("entry of rate: %+v", e)
		}
	}
}

func TestTimesHaveUnits(t *testing.T) {
	for in, want := range map[string]string{"28800": "8h", "86400": "24h", "604800": "7d", "90": "90s", "120": "2m", "0": "0s", "12.5": "12.5s", "0x10": "16s"} {
		text, _ := converted(t, Input{YAML: []byte("labels:\n  - {name: x, max-ready-age: " + in + "}\n")})
		wantLines(t, text, `max_ready_age = "`+want+`"`)
	}
}

func TestNegativeMinReady(t *testing.T) {
	for in, want := range map[string]Verdict{"-1": Converted, "-2": Changed} {
		text, r := converted(t, Input{YAML: []byte("labels:\n  - {name: x, min-ready: " + in + "}\n")})
		wantLines(t, text, "min_ready = "+map[string]string{"-1": "-1", "-2": "0"}[in]+" }")
		if e := entryOf(t, r, "labels[x].min-ready"); e.Verdict != want {
			t.Errorf("min-ready %s: %+v", in, e)
		}
	}
}

func TestListedImagesWithoutLabelAreUploaded(t *testing.T) {
	yaml := strings.Replace(small, "    elements: [debian-minimal, vm]\n", "    elements: [debian-minimal, vm]\n  - {name: next, parent: debian-12}\n", 1) + `    diskimages:
      - name: debian-12
      - name: next # after the freeze
        pause: true
    pools:
      - name: main
        labels: [{name: debian, diskimage: debian-12, flavor-name: small}]
`
	text, r := converted(t, Input{YAML: []byte(yaml)})
	wantLines(t, text, "# after the freeze", "image \"next\" { upload = true pause = true }")
	if strings.Contains(text, "\n  image \"debian-12\"") {
		t.Errorf("the image of the label is listed:\n%s", text)
	}
	if e := entryOf(t, r, "providers[cloud].diskimages[next].name"); e.Verdict != Converted {
		t.Errorf("entry: %+v", e)
	}
}

func TestMergesAndAnchorsAreResolved(t *testing.T) {
	text, r := converted(t, Input{YAML: []byte(`labels: [{name: a}, {name: b}]
common: &common
  flavor-name: small # the usual size
  key-name: infra
providers:
  - name: p
    cloud: c
    cloud-images: [{name: debian}]
    pools:
      - name: main
        labels:
          - {<<: *common, name: a, cloud-image: debian}
          - {<<: *common, name: b, cloud-image: debian, flavor-name: large}
`)})
	wantLines(t, text, "# the usual size", `flavor = "small"`, `flavor = "large"`, `key_name = "infra"`)
	if strings.Count(text, `key_name`) != 1 {
		t.Errorf("the attribute that both labels have is not at the pool:\n%s", text)
	}
	if e := entryOf(t, r, "common"); e.Verdict != NoEffect {
		t.Errorf("entry of the key with the anchor: %+v", e)
	}
}

func TestPlainKeepsRepetition(t *testing.T) {
	yaml := strings.Replace(small, "{name: debian}", "{name: debian}, {name: other}", 1) + `    pools:
      - name: main
        labels:
          - {name: debian, diskimage: debian-12, flavor-name: small, key-name: k}
          - {name: other, diskimage: debian-12, flavor-name: small, key-name: k}
`
	text, _ := converted(t, Input{YAML: []byte(yaml), Options: Options{Plain: true}})
	if strings.Count(text, "key_name") != 2 {
		t.Errorf("the output is not plain:\n%s", text)
	}
}

func TestCommentsStayAtWhatTheyDescribe(t *testing.T) {
	text, _ := converted(t, Input{YAML: []byte(`# The CI of the museum.

labels:
  # for reviews
  - name: x
    min-ready: 3 # since the flood
providers:
  # the cheap one
  - name: p
    cloud: c # in clouds.yaml
    cloud-images: [ # a list
      {name: debian} ]
    pools:
      - name: main
        max-servers: 5
        # not more
        labels:
          - name: x
            cloud-image: debian
            # bigger than it was
            flavor-name: large
# the end
`)})
	wantLines(t, text, "# The CI of the museum.", "# for reviews\nlabel \"x\"", "min_ready = 3 # since the flood", "# the cheap one\nprovider",
		`cloud = "c" # in clouds.yaml`, "# a list", "# not more", "# bigger than it was\nflavor = \"large\"", "# the end")
}

func TestSecureValuesAreInTheirOwnFileOnly(t *testing.T) {
	text, r := converted(t, Input{YAML: []byte(small), SecureName: "secure.conf", Secure: []byte(`# the password of 2014: tulip99
zookeeper-servers: [{host: hidden-host, port: 2222, chroot: /hidden-root}]
zookeeper-tls: {cert: /hidden/cert, key: /hidden/key, ca: /hidden/ca}
diskimages:
  - name: debian-12
    env-vars: {TOKEN: hidden-token, OTHER: "%(NODEPOOL_OTHER)"}
`)})
	secret := r.Files[slices.IndexFunc(r.Files, func(f File) bool { return f.Name == SecretsFile })]
	if secret.Mode != fs.FileMode(0o600) {
		t.Errorf("mode of the file with secrets: %o", secret.Mode)
	}
	wantLines(t, string(secret.Data), `zookeeper_hosts = ["hidden-host:2222"]`, `zookeeper_chroot = "/hidden-root"`, `TOKEN = "hidden-token"`)
	for _, value := range []string{"hidden", "tulip"} {
		if strings.Contains(text+r.Text(true)+r.Markdown(), value) {
			t.Errorf("%q is outside the file with secrets", value)
		}
	}
	wantLines(t, text, "hosts = var.zookeeper_hosts", `secret_env = merge(var.diskimage_secret_env["debian-12"], { OTHER = env("NODEPOOL_OTHER") })`, "sensitive = true")
	if !slices.Equal(r.Env, []string{"NODEPOOL_OTHER"}) {
		t.Errorf("environment variables: %q", r.Env)
	}
}

func TestInheritedSecretsAreReported(t *testing.T) {
	child := strings.Replace(small, "providers:", "  - {name: child, parent: debian-12}\nproviders:", 1)
	for yaml, want := range map[string]bool{small: false, child: true} {
		_, r := converted(t, Input{YAML: []byte(yaml), Secure: []byte("diskimages: [{name: debian-12, env-vars: {TOKEN: x}}]")})
		if e := entryOf(t, r, "diskimages[debian-12].env-vars"); e.Verdict != Changed || strings.Contains(e.Note, "inherit the variables") != want {
			t.Errorf("with a child %v: %+v", want, e)
		}
	}
}

func TestErrorsInTheSecureFileShowNoValues(t *testing.T) {
	for _, secure := range []string{"hidden-token", "a: [hidden-token", "diskimages: [{name: debian-12, env-vars: hidden-token}]", "zookeeper-servers: [{host: h, port: hidden-token}]",
		"diskimages: [{name: debian-12, env-vars: {A: 'hidden-token%(NODEPOOL_X)'}}]"} {
		_, err := translated(Input{YAML: []byte(small), Secure: []byte(secure)})
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: error %v", secure, err)
		}
	}
}

func TestEnvironmentIsReferred(t *testing.T) {
	text, r := converted(t, Input{YAML: []byte(small + "    region-name: %(NODEPOOL_REGION)\n    boot-timeout: %(NODEPOOL_BOOT)\n    rate: %(NODEPOOL_RATE)\n    image-name-format: a-%(NODEPOOL_NAME)-{timestamp}\n")})
	wantLines(t, text, `region = env("NODEPOOL_REGION")`, `boot_timeout = "${env("NODEPOOL_BOOT")}s"`, `rate = 1 / env("NODEPOOL_RATE")`,
		`image_name_format = "a-${env("NODEPOOL_NAME")}-{timestamp}"`)
	if len(r.Env) != 4 {
		t.Errorf("environment variables: %q", r.Env)
	}
	text, _ = converted(t, Input{YAML: []byte(small + "    region-name: 'a\"$%(NODEPOOL_REGION)${x}'\n")})
	wantLines(t, text, `region = "a\"${"$"}${env("NODEPOOL_REGION")}$${x}"`)
}

func TestProviderOfTheDriverFakeBecomesAComment(t *testing.T) {
	text, r := converted(t, Input{YAML: []byte("labels: [{name: x}]\nproviders:\n  - name: tests\n    driver: fake\n    region: us-east1\n    pools:\n      - name: main\n        labels: [{name: x, instance-type: t3}] # small\n")})
	wantLines(t, text, `label "x"`, `# The provider "tests" is not converted`, "# | region: us-east1", "# small")
	for _, path := range []string{"providers[tests].name", "providers[tests].region", "providers[tests].pools[main].labels[x].instance-type"} {
		if e := entryOf(t, r, path); e.Verdict != Unsupported {
			t.Errorf("entry of %s: %+v", path, e)
		}
	}
	if e := entryOf(t, r, "providers[tests].driver"); e.Verdict != Unsupported || !strings.Contains(e.Note, "sandbox") {
		t.Errorf("entry of the driver fake: %+v", e)
	}
	text, r = converted(t, Input{YAML: []byte(`{"labels": [{"name": "x"}], "providers": [{"name": "tests", "driver": "fake"}, {"name": "p", "cloud": "other-cloud"}]}`)})
	if strings.Count(text, "other-cloud") != 1 || len(r.Report) != 7 {
		t.Errorf("the comment of a provider in one line has more than the provider:\n%s%s", text, r.Text(true))
	}
}

func TestUnknownKeysAreReportedWithNearOnes(t *testing.T) {
	text, r := converted(t, Input{YAML: []byte(small + "    boott-timeout: 77\n")})
	if e := entryOf(t, r, "providers[cloud].boott-timeout"); e.Verdict != Unsupported || !strings.Contains(e.Note, "did you mean boot-timeout?") {
		t.Errorf("entry: %+v", e)
	}
	wantLines(t, text, "boott-timeout: 77")
}

func TestMistakesHaveTheirLines(t *testing.T) {
	for yaml, want := range map[string]string{
		"labels: [":         "n.yaml:1: invalid YAML",
		"a: b\n---\nc: d\n": "second document",
		"- a\n":             "n.yaml:1: n.yaml is not a configuration of Nodepool",
		"labels: 3\n":       `n.yaml:1: labels is "3"; it has to be a list`,
		"labels:\n  - name: x\n    min-ready: many\n": `n.yaml:3: min-ready is "many"; it has to be a whole number`,
		"labels:\n  - min-ready: 1\n":                 "n.yaml:2: the label has no name",
		small + "    boot-timeout: soon\n":            `n.yaml:9: boot-timeout is "soon"; it has to be a number of seconds`,
		small + "    pools:\n      - name: m\n        labels:\n          - {name: debain, diskimage: debian-12, min-ram: 1}\n": `n.yaml:12: there is no label "debain"; did you mean "debian"?`,
		small + "    pools:\n      - name: m\n        labels:\n          - {name: debian, diskimage: debian-21, min-ram: 1}\n": `n.yaml:12: there is no diskimage "debian-21"; did you mean "debian-12"?`,
		"diskimages:\n  - {name: a, parent: b}\n":                                          `n.yaml:2: there is no diskimage "b"`,
		"diskimages:\n  - {name: a, parent: b, elements: [x]}\n  - {name: b, parent: a}\n": "is its own parent",
		"providers:\n  - {name: p, driver: openstak}\n":                                    `there is no driver "openstak"; did you mean "openstack"?`,
		"labels: &a\n  - *a\n":                                                             "refers to a value that contains it",
	} {
		_, err := translated(Input{Name: "n.yaml", YAML: []byte(yaml)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, not %q", yaml, err, want)
		}
	}
	_, err := translated(Input{Name: "n.yaml", YAML: []byte("labels: 3\ndiskimages: 4\n")})
	if at, ok := errors.AsType[*Error](err); !ok || at.Line != 1 || !strings.Contains(err.Error(), "n.yaml:2:") {
		t.Errorf("two mistakes: %v", err)
	}
}

func TestAliasBombsAreRefused(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		from, to := string(rune('0'+i)), string(rune('1'+i))
		bomb += "a" + to + ": &a" + to + " [" + strings.TrimSuffix(strings.Repeat("*a"+from+", ", 10), ", ") + "]\n"
	}
	if _, err := translated(Input{YAML: []byte(bomb)}); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("error %v", err)
	}
	if _, err := translated(Input{YAML: []byte(strings.Repeat("# x\n", maxBytes/4+1))}); err == nil || !strings.Contains(err.Error(), "MiB") {
		t.Errorf("error %v", err)
	}
}

func TestPoolsWithTheSameLabelsShareThem(t *testing.T) {
	pools := `    diskimages: [{name: debian-12}, {name: debian-13}]
    pools:
      - name: main
        labels: &labels
          - {name: debian, diskimage: debian-12, flavor-name: s}
          - {name: big, diskimage: debian-12, flavor-name: l}
          - {name: huge, diskimage: debian-13, min-ram: 64000}
      - {name: second, labels: *labels}
`
	yaml := strings.Replace(small, "{name: debian}", "{name: debian}, {name: big}, {name: huge}", 1)
	yaml = strings.Replace(yaml, "diskimages:\n", "diskimages:\n  - {name: debian-13, elements: [vm]}\n", 1) + pools
	text, _ := converted(t, Input{YAML: []byte(yaml)})
	wantLines(t, text, `labels = {`, `"huge" = { image = "debian-13", min_ram = 64000 }`, `label "all" {`, "for_each = local.labels",
		"image = diskimage[each.value.image]", "min_ram = try(each.value.min_ram, null)")
	text, _ = converted(t, Input{YAML: []byte(yaml), Options: Options{Plain: true}})
	if strings.Contains(text, "for_each") || strings.Count(text, `label "huge"`) != 3 {
		t.Errorf("the output is not plain:\n%s", text)
	}
}

func TestSimilarProvidersAreOneBlock(t *testing.T) {
	yaml := strings.Replace(small, "providers:\n  - name: cloud\n    cloud: cloud\n    diskimages: [{name: debian-12}]\n", "providers:\n", 1)
	region := func(name, more string) string {
		return "  - name: " + name + "\n    cloud: acre\n    launch-retries: 5\n    launch-timeout: 700\n    max-concurrency: 4\n" + more + "    diskimages: [{name: debian-12}]\n    pools: [{name: main, labels: [{name: debian, diskimage: debian-12, flavor-name: small}]}]\n"
	}
	for _, c := range []struct {
		name, yaml string
		lines      []string
	}{
		{"one value", region("a-1", "    region-name: One # near\n") + region("a-2", "    region-name: Two\n"),
			[]string{`provider "openstack" "a" { for_each = {`, `"a-1" = "One" # near`, `"a-2" = "Two"`, "name = each.key", "region = each.value\n"}},
		{"a value that not all have", region("east", "") + region("west", "    region-name: Two\n"),
			[]string{`provider "openstack" "cloud" {`, `"east" = {}`, `"west" = { region = "Two" }`, "region = try(each.value.region, null)"}},
		{"comments", region("a-1", "    # first\n    priority: 3\n") + region("a-2", "    # second\n    priority: 3\n"),
			[]string{`for_each = toset([`, "# second\n\"a-2\"", "# first\n priority = 3"}},
		{"the name of another provider", region("a-1", "    region-name: One\n") + region("a-2", "    region-name: Two\n") + "  - {name: a, cloud: a}\n",
			[]string{`provider "openstack" "a-2" {`, `provider "openstack" "a" {`}},
	} {
		text, _ := converted(t, Input{YAML: []byte(yaml + c.yaml)})
		wantLines(t, text, c.lines...)
		text, _ = converted(t, Input{YAML: []byte(yaml + c.yaml), Options: Options{Plain: true}})
		if strings.Contains(text, "for_each") {
			t.Errorf("%s: the output is not plain:\n%s", c.name, text)
		}
	}
	for name, other := range map[string]string{"other structure": strings.Replace(region("a-2", ""), "name: main", "name: main, node-attributes: {a: \"1\\n2\\n3\\n\"}", 1),
		"another driver": "  - {name: a-2, driver: static, pools: [{name: main, nodes: [{name: n, labels: debian}]}]}\n"} {
		if text, _ := converted(t, Input{YAML: []byte(yaml + region("a-1", "") + other)}); strings.Contains(text, "for_each") {
			t.Errorf("%s: the providers are one block:\n%s", name, text)
		}
	}
}

func TestImagesDoNotRepeatTheirParents(t *testing.T) {
	yaml := []byte("diskimages:\n  - {name: base, abstract: true, username: ci, rebuild-age: 60, elements: [vm], env-vars: {TMPDIR: /scratch}}\n" +
		"  - {name: mid, parent: base, username: ci, release: a, elements: [vm]}\n" +
		"  - {name: top, parent: mid, username: ci, rebuild-age: 120, env-vars: {TMPDIR: /scratch}}\n" +
		"  - name: kept\n    parent: base\n    username: ci # on purpose\n")
	text, _ := converted(t, Input{YAML: yaml})
	wantLines(t, text, `diskimage "mid" { parent = diskimage.base builder "dib" { elements = ["vm"] release = "a" } }`,
		`diskimage "top" { parent = diskimage.mid rebuild_age = "2m" }`, `username = "ci" # on purpose`)
	text, _ = converted(t, Input{YAML: yaml, Options: Options{Plain: true}})
	if strings.Count(text, "username ") != 4 {
		t.Errorf("the output is not plain:\n%s", text)
	}
}

func TestSimilarNodesAreOneBlock(t *testing.T) {
	yaml := "labels: [{name: x}, {name: y}]\nproviders: [{name: p, driver: static, pools: [{name: main, nodes: [\n"
	for _, name := range []string{"n-1", "n-2", "n-3", "n-4"} {
		yaml += "  {name: " + name + ", labels: x, username: ci, timeout: 9},\n"
	}
	text, _ := converted(t, Input{YAML: []byte(yaml + "  {name: z, labels: y}]}]}]\n")})
	wantLines(t, text, `node "n" {`, `for_each = toset(["n-1", "n-2", "n-3", "n-4"])`, "name = each.key", `node "z" {`)
}

func TestLinksOfTheReportExist(t *testing.T) {
	headings := map[string]bool{}
	for line := range strings.SplitSeq(string(read(t, "../../docs/coming-from-nodepool.md")), "\n") {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "##") {
			headings[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = true
		}
	}
	anchors := []string{toGlobal, toImages, toEvery, toBehavior, toLabels}
	for _, tables := range newTranslator(schemas()).drivers {
		anchors = append(anchors, tables.Guide)
	}
	for _, anchor := range anchors {
		if !headings[anchor] {
			t.Errorf("docs/coming-from-nodepool.md has no heading for #%s", anchor)
		}
	}
}

// TestPageHasEveryKey finds the keys of each driver in its section of the page, or in that of every provider.
func TestPageHasEveryKey(t *testing.T) {
	sections, anchor := map[string]string{}, ""
	for line := range strings.SplitSeq(string(read(t, "../../docs/coming-from-nodepool.md")), "\n") {
		if title, ok := strings.CutPrefix(line, "### "); ok {
			anchor = strings.ReplaceAll(strings.ToLower(title), " ", "-")
		}
		sections[anchor] += line + "\n"
	}
	for kind, d := range schemas() {
		n := d.Nodepool
		for _, k := range slices.Concat(n.Provider, n.Image, n.CloudImage, n.Pool, n.Label, n.Node) {
			outer, _, _ := strings.Cut(k.Key, ".")
			if page := sections[n.Guide] + sections[toEvery]; !regexp.MustCompile("[`.]" + regexp.QuoteMeta(outer) + "[`.]").MatchString(page) {
				t.Errorf("%s: the section %s has no key %s", kind, n.Guide, k.Key)
			}
		}
	}
}

func TestPropertiesWithValuesOfTheRequestAreConverted(t *testing.T) {
	const templates = small + "    cloud-images: [{name: i}]\n    pools:\n      - name: main\n        labels:\n          - {name: debian, cloud-image: i, flavor-name: m,\n             dynamic-instance-properties: {tenant: \"{request.tenant_name}\", job: \"{request.requestor_data}\"}}\n"
	text, r := converted(t, Input{YAML: []byte(templates)})
	wantLines(t, text, "request_properties = {", `tenant = "{request.tenant_name}"`, `job`, "{request.requestor_data}")
	const path = "providers[cloud].pools[main].labels[debian].dynamic-instance-properties"
	if e := entryOf(t, r, path); e.Verdict != Converted {
		t.Errorf("entry: %+v", e)
	}
	text, r = converted(t, Input{YAML: []byte(strings.Replace(templates, "{request.tenant_name}", "{request.labels[0]}", 1))})
	if e := entryOf(t, r, path); e.Verdict != Unsupported || !strings.Contains(e.Note, "unknown placeholder {request.labels[0]}") || strings.Contains(text, "request_properties =") {
		t.Errorf("entry of an unknown placeholder: %+v\n%s", e, text)
	}
}

func TestPoolsOfCloudsInheritFromTheirProvider(t *testing.T) {
	const yaml = "labels: [{name: x}]\nproviders:\n  - name: k\n    driver: kubernetes\n    max-servers: 7\n    max-cores: 40\n    max-resources: {gpu: 4, disk: 9}\n" +
		"    pools:\n      - {name: a, max-resources: {gpu: 2}, labels: [{name: x, type: namespace}]}\n      - {name: b, max-cores: 8, labels: [{name: x, type: namespace}]}\n"
	text, r := converted(t, Input{YAML: []byte(yaml)})
	wantLines(t, text, `pool "a" {`, "gpu = 2", "disk = 9", "max_cores = 40", `pool "b" {`, "max_cores = 8", "gpu = 4")
	if e := entryOf(t, r, "providers[k].max-servers"); e.Verdict != NoEffect { // Nodepool reads it and ignores it
		t.Errorf("entry of max-servers: %+v", e)
	}
	if strings.Contains(text, "max_servers") {
		t.Errorf("the limit of servers that Nodepool ignores is in the output:\n%s", text)
	}
}

func corpusFile(t *testing.T, name string) (string, *Result) {
	t.Helper()
	return converted(t, Input{Name: name, YAML: read(t, "testdata/corpus/"+name)})
}

func TestLabelsThatNodepoolDoesNotServeStayUnserved(t *testing.T) {
	text, r := corpusFile(t, "labels-not-served.yaml")
	wantLines(t, text, `# Label "new" is not converted: Nodepool does not serve the label here, because the provider does not have the diskimage "noble".`,
		"# | flavor-name: m1.small # as small", `label "small" {`, `abstract = true # no elements and no provider`)
	e := entryOf(t, r, "providers[cloud1].pools[main].labels[new].diskimage")
	if e.Verdict != NoEffect || !strings.Contains(e.Note, "noble") {
		t.Errorf("entry: %+v", e)
	}
	aws := "labels: [{name: l}]\ndiskimages: [{name: d, elements: [x]}]\nproviders:\n- name: p\n  driver: aws\n  pools:\n  - name: m\n    labels:\n    - {name: l, diskimage: d, instance-type: t3}\n"
	if _, err := translated(Input{Name: "n.yaml", YAML: []byte(aws)}); err == nil || !strings.Contains(err.Error(), `n.yaml:9: the provider "p" has no diskimage "d"`) {
		t.Errorf("Nodepool's driver aws refuses such a label: %v", err)
	}
}

func TestChildrenOfAnImageWithoutElementsAreBuilt(t *testing.T) {
	const yaml = "labels: [{name: l}]\ndiskimages:\n  - {name: base, env-vars: {A: b}}\n  - {name: child, parent: base, elements: [vm]}\n" +
		"providers:\n  - name: p\n    cloud: c\n    diskimages: [{name: base}, {name: child}]\n    pools: [{name: m, labels: [{name: l, diskimage: child, min-ram: 1}]}]\n"
	text, _ := converted(t, Input{YAML: []byte(yaml)}) // equal, so that the child inherits no element and no pause
	wantLines(t, text, `diskimage "base-common" {`, `abstract = true`, `env = { A = "b" }`, `pause = true # until it has elements`, `elements = ["none"]`, `elements = ["vm"]`)
	if n := strings.Count(text, "parent = diskimage.base-common"); n != 2 {
		t.Errorf("%d images inherit what both have in common:\n%s", n, text)
	}
}

func TestKeysThatNodepoolOverwritesAreReported(t *testing.T) {
	text, r := corpusFile(t, "aws-overwritten-keys.yaml")
	wantLines(t, text, `instance_types = ["t3.large", "t3a.large"]`, `name = ["ubuntu*"]`)
	for _, key := range []string{"tags.Name", "instance-type"} {
		if e := entryOf(t, r, "providers[ec2].pools[main].labels[u]."+key); e.Verdict != NoEffect {
			t.Errorf("entry: %+v", e)
		}
	}
}

func TestProjectsOfOpenShiftAreProviders(t *testing.T) {
	r, err := translated(Input{YAML: read(t, "testdata/corpus/openshiftpods-projects.yaml"), Options: Options{Plain: true}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(r.Files[0].Data)
	wantLines(t, text, `provider "openshiftpods" "os" {`, `provider "openshiftpods" "os-second" {`, `project = "second"`, `provider "openshiftpods" "os-third" {`)
	if e := entryOf(t, r, "providers[os].pools[second].name"); e.Verdict != Changed || !strings.Contains(e.Note, `"os-second"`) {
		t.Errorf("entry: %+v", e)
	}
	if n := strings.Count(text, "launch_attempts = 2"); n != 3 {
		t.Errorf("%d providers have launch_attempts:\n%s", n, text)
	}
}

func TestOneKeyOfACloudImageIsWrittenOnce(t *testing.T) {
	text, _ := corpusFile(t, "gce-one-key.yaml")
	for _, key := range []string{"IIN\"", "IIO\""} {
		if n := strings.Count(text, strings.Replace(key, "II", "AAAAI", 1)); n != 1 {
			t.Errorf("the key is written %d times:\n%s", n, text)
		}
	}
	if n := strings.Count(text, "pd-standard"); n > 2 {
		t.Errorf("the default is written %d times:\n%s", n, text)
	}
}

func TestOldFormatIsRecognized(t *testing.T) {
	for want, yaml := range map[string]string{
		"n.yaml:3": "labels:\n  - name: x\n    image: ubuntu\n    providers: [{name: p}]\nproviders: [{name: p, images: [{name: ubuntu}]}]\n",
		"n.yaml:4": "labels: []\nproviders:\n  - name: p\n    images: [{name: ubuntu}]\n",
	} {
		_, err := translated(Input{Name: "n.yaml", YAML: []byte(yaml)})
		if err == nil || !strings.HasPrefix(err.Error(), want+": the file has the format of Nodepool 0.x") || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v", err)
		}
	}
}

func TestProviderOfAnUnknownDriverBecomesAComment(t *testing.T) {
	text, r := converted(t, Input{YAML: []byte("labels: [{name: x}]\nproviders:\n  - name: own\n    driver: xyzzy\n    size: 7\n")})
	wantLines(t, text, `# The provider "own" is not converted: npctl convert does not know the driver "xyzzy".`, "# | size: 7")
	if e := entryOf(t, r, "providers[own].driver"); e.Verdict != Unsupported {
		t.Errorf("entry: %+v", e)
	}
}
