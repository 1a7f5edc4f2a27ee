package convert_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"

	"github.com/npctl/npctl/builders/dib"
	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/drivers/aws"
	"github.com/npctl/npctl/drivers/azure"
	"github.com/npctl/npctl/drivers/gce"
	"github.com/npctl/npctl/drivers/ibmvpc"
	"github.com/npctl/npctl/drivers/kubernetes"
	"github.com/npctl/npctl/drivers/metastatic"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/static"
	"github.com/npctl/npctl/internal/convert"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state/location"
)

const corpus = "testdata/corpus"

// inputs returns the files of the corpus by name.
func inputs(t testing.TB) map[string]convert.Input {
	t.Helper()
	all := map[string]convert.Input{}
	files, err := filepath.Glob(corpus + "/*.yaml")
	testutil.Must(t, err)
	for _, file := range files {
		name, ok := strings.CutSuffix(filepath.Base(file), ".yaml")
		if !ok || strings.HasSuffix(name, ".secure") {
			continue
		}
		main, err := os.ReadFile(file)
		testutil.Must(t, err)
		in := convert.Input{Name: filepath.Base(file), YAML: main, Drivers: schemas}
		if secure, err := os.ReadFile(filepath.Join(corpus, name+".secure.yaml")); err == nil {
			in.SecureName, in.Secure = name+".secure.yaml", secure
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all[name] = in
	}
	if len(all) < 30 {
		t.Fatalf("the corpus has %d files", len(all))
	}
	return all
}

// environment has a value for every variable of Nodepool.
func environment(name string) (string, bool) {
	if name == "NODEPOOL_WEB_PORT" {
		return "8005", true
	}
	return strings.ToLower(name), strings.HasPrefix(name, "NODEPOOL_")
}

// load writes the files to a new directory, checks their format and loads them.
func load(t *testing.T, files []convert.File) resources.Desired {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		testutil.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f.Name)), 0o700))
		testutil.Must(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, f.Mode))
		formatted, diags := config.Format(f.Data, f.Name)
		if diags.HasErrors() || string(formatted) != string(f.Data) {
			t.Errorf("%s is not formatted: %v", f.Name, diags)
		}
	}
	result, diags := config.Load(options(dir))
	if diags.HasErrors() {
		t.Fatalf("the configuration is not valid: %v\n%s", diags, text(files))
	}
	return result.Desired
}

// schemas are those of the drivers that Nodepool has.
var schemas = map[string]schema.Driver{
	"openstack": openstack.New().Schema(), "static": static.New().Schema(),
	"aws": aws.New().Schema(), "ibmvpc": ibmvpc.New().Schema(), "gce": gce.New().Schema(), "azure": azure.New().Schema(), "metastatic": metastatic.New().Schema(),
	"kubernetes": kubernetes.New().Schema(), "openshift": kubernetes.NewOpenShift().Schema(), "openshiftpods": kubernetes.NewOpenShiftPods().Schema(),
}

// options are those of npctl for a directory.
func options(dir string) config.Options {
	return config.Options{
		Path: dir, LookupEnv: environment, States: location.Schemas(),
		Drivers:  schemas,
		Builders: map[string]schema.Block{"dib": (&dib.Builder{}).Schema()},
	}
}

func text(files []convert.File) string {
	var text strings.Builder
	for _, f := range files {
		text.WriteString("# " + f.Name + "\n" + string(f.Data) + "\n")
	}
	return text.String()
}

// compare compares a translation with its input.
func compare(t *testing.T, in convert.Input, d resources.Desired) convert.Comparison {
	t.Helper()
	c, err := convert.Compare(in, environment, d)
	testutil.Must(t, err)
	return c
}

func TestCorpusDescribesTheSameStateAfterConversion(t *testing.T) {
	t.Parallel()
	for name, in := range inputs(t) {
		for form, opts := range map[string]convert.Options{"short": {}, "plain": {Plain: true}, "split": {Split: true}} {
			t.Run(name+"/"+form, func(t *testing.T) {
				in.Options = opts
				result, err := convert.Convert(in)
				testutil.Must(t, err)
				c := compare(t, in, load(t, result.Files))
				for _, d := range c.Differences {
					t.Error(d)
				}
				if t.Failed() {
					t.Log(text(result.Files))
				}
			})
		}
	}
}

// TestEveryRateIsConverted includes rates with an inverse of many decimals.
func TestEveryRateIsConverted(t *testing.T) {
	yaml := testutil.ReadFile(t, "testdata/rate.yaml")
	for _, rate := range strings.Fields("0 0.001 0.01 0.3 0.6 0.7 1 1.1 1.5 2 3 6 7 9 12 30 60 3600 1000000") {
		in := convert.Input{YAML: []byte(strings.Replace(yaml, "RATE", rate, 1)), Drivers: schemas}
		result, err := convert.Convert(in)
		testutil.Must(t, err)
		for _, d := range compare(t, in, load(t, result.Files)).Differences {
			t.Errorf("rate %s: %v", rate, d)
		}
	}
}

// TestComparisonReportsEveryChange changes one attribute at a time in the result of conversions, and removes it.
func TestComparisonReportsEveryChange(t *testing.T) {
	t.Parallel()
	changes, removals := 0, 0
	value := regexp.MustCompile(`^(\s*[a-z0-9_]+\s+= )("[^"$%\\]*"|[0-9.]+|true|false|\["[^"$%\\]*"\])(\s.*|)$`)
	for _, name := range []string{"openstack-documented", "static-windows", "inherited-falsy", "tenants", "cloud-images", "upload-settings",
		"aws-everything", "azure-everything", "gce-everything", "ibmvpc-everything", "clusters", "metastatic", "openshiftpods-projects"} {
		in := inputs(t)[name]
		in.Options.Plain = true
		result, err := convert.Convert(in)
		testutil.Must(t, err)
		for i, f := range result.Files {
			lines := strings.Split(string(f.Data), "\n")
			for k, line := range lines {
				part := value.FindStringSubmatch(line)
				if part == nil || unmodeled(line) || name == "aws-everything" && strings.Contains(line, "image_format") {
					continue
				}
				for _, with := range []string{part[1] + other(strings.TrimSpace(part[1]), part[2]) + part[3], ""} {
					changed := slices.Clone(lines)
					changed[k] = with
					files := slices.Clone(result.Files)
					files[i].Data = []byte(strings.Join(changed, "\n"))
					d, ok := loadChanged(t, files)
					if !ok {
						continue // an invalid value, such as an unknown kind of connection
					}
					if with == "" {
						removals++
					} else {
						changes++
					}
					if c := compare(t, in, d); len(c.Differences) == 0 && (with != "" || !isDefault(part[1], part[2])) {
						t.Errorf("%s: no difference after the change of %q to %q", name, line, with)
					}
				}
			}
		}
	}
	if changes < 200 || removals < 150 {
		t.Errorf("only %d changes and %d removals were valid", changes, removals)
	}
}

// isDefault reports whether npctl has this value in these files without the attribute too.
func isDefault(attribute, value string) bool {
	return slices.Contains([]string{"auto_floating_ip = false", "host_key_checking = true", "connection_port = 5986", "connection_type = \"ssh\"", "boot_timeout = \"5m\"",
		"username = \"zuul\"", "admin_username = \"zuul\"", "ena_support = true", "volume_type = \"gp3\"", "public_ipv4 = false", "public_ipv6 = false", "image_format = \"qcow2\"",
		"build_log_dir = \"/var/log/nodepool/builds\""}, strings.Join(strings.Fields(attribute+value), " "))
}

// unmodeled are attributes that Nodepool does not have, and those of partial keys.
func unmodeled(line string) bool {
	name := strings.Fields(line)[0]
	return slices.Contains([]string{"abstract", "verify_host_names", "file", "import_method"}, name)
}

func other(attribute, value string) string {
	switch {
	case value == "true":
		return "false"
	case value == "false":
		return "true"
	case regexp.MustCompile(`^"[0-9.]+[smh]"$`).MatchString(value):
		return `"77s"`
	case strings.HasPrefix(value, "["):
		return value[:len(value)-2] + `x"]`
	case strings.HasPrefix(value, `"`):
		return value[:len(value)-1] + `x"`
	}
	return "3" + value
}

func loadChanged(t *testing.T, files []convert.File) (resources.Desired, bool) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		testutil.Must(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, f.Mode))
	}
	result, diags := config.Load(options(dir))
	return result.Desired, !diags.HasErrors()
}

// FuzzConvert searches for input on which Convert panics, or returns neither an error nor HCL that can be parsed.
func FuzzConvert(f *testing.F) {
	for _, in := range inputs(f) {
		f.Add(in.YAML, in.Secure)
	}
	f.Fuzz(func(t *testing.T, main, secure []byte) {
		if len(main)+len(secure) > 1<<14 {
			return
		}
		in := convert.Input{Name: "nodepool.yaml", YAML: main, SecureName: "secure.conf", Secure: secure, Drivers: schemas}
		result, err := convert.Convert(in)
		_, _ = convert.Compare(in, environment, resources.Desired{})
		if (result == nil) != (err != nil) {
			t.Fatalf("result %v with error %v", result, err)
		}
		if err != nil {
			return
		}
		for _, file := range result.Files {
			if _, diags := hclparse.NewParser().ParseHCL(file.Data, file.Name); diags.HasErrors() {
				t.Fatalf("%v\n%s", diags, file.Data)
			}
		}
	})
}
