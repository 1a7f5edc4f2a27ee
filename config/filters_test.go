package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// filtered loads a configuration with the filters of an image. The digest is of the whole configuration.
func filtered(t *testing.T, filters string) (got map[string]resources.AnyOf, digest, problems string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "npctl.hcl")
	testutil.WriteFile(t, file, `
label "small" {}
provider "acme" "cloud" {
  cloud = "cloud"
  cloud_image "found" {
    filters = `+filters+`
  }
  pool "main" {
    label "small" {
      image  = cloud_image.found
      flavor = "small"
    }
  }
}
`)
	result, diags := Load(testOptions(file))
	for _, p := range result.Desired.Providers {
		for _, image := range p.CloudImages {
			got = image.Filters
		}
	}
	return got, string(result.Desired.WithHashKey("key").Digests.Current()), text(t, diags, result.Files)
}

func TestFiltersHaveOneOrSeveralPatterns(t *testing.T) {
	for filters, want := range map[string]map[string]resources.AnyOf{
		`{ name = "noble-*", tag = ["lts", "current"] }`:     {"name": {"noble-*"}, "tag": {"lts", "current"}},
		`{ for n in ["a", "b"] : n => n }`:                   {"a": {"a"}, "b": {"b"}},
		`{ for n in ["a", "b"] : n => [n, "x"] }`:            {"a": {"a", "x"}, "b": {"b", "x"}},
		`{ version = 24, name = toset(["x", "y"]) }`:         {"version": {"24"}, "name": {"x", "y"}},
		`merge({ name = "noble" }, { tag = concat(["a"]) })`: {"name": {"noble"}, "tag": {"a"}},
	} {
		got, _, problems := filtered(t, filters)
		if diff := cmp.Diff(want, got); diff != "" || problems != "" {
			t.Errorf("%s (-want +got):\n%s%s", filters, diff, problems)
		}
	}
}

func TestAPatternAndAListOfItHaveEqualDigests(t *testing.T) {
	_, single, _ := filtered(t, `{ name = "noble" }`)
	_, list, _ := filtered(t, `{ name = ["noble"] }`)
	_, two, _ := filtered(t, `{ name = ["noble", "x"] }`)
	if single != list || single == two || single == "" {
		t.Errorf("digests: %s of a pattern, %s of a list of it, %s of two patterns", single, list, two)
	}
}

func TestInvalidFiltersAreRejected(t *testing.T) {
	for filters, want := range map[string]string{
		`{}`:                        "there must be at least one",
		`{ name = [] }`:             `the list of "name" is empty`,
		`{ name = null }`:           "an element is null",
		`{ name = ["a", null] }`:    "an element is null",
		`{ name = { a = "b" } }`:    "Wrong type",
		`{ name = [["a"]] }`:        "Wrong type",
		`"noble"`:                   "Wrong type",
		`{ name = sensitive("a") }`: "cannot be sensitive",
	} {
		if _, _, problems := filtered(t, filters); !strings.Contains(problems, want) || !strings.Contains(problems, "^") {
			t.Errorf("%s: %s, want %q", filters, problems, want)
		}
	}
}
