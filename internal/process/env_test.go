package process

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBaseEnvKeepsSecretsOut(t *testing.T) {
	got := BaseEnv([]string{
		"PATH=/bin", "HOME=/home/x", "USER=x", "LANG=de_DE.UTF-8", "TMPDIR=/var/tmp", "http_proxy=http://p:1", "no_proxy=localhost",
		"OS_PASSWORD=secret", "NPCTL_VAR_token=secret", "AWS_SECRET_ACCESS_KEY=secret", "LD_PRELOAD=/x", "BASH_ENV=/x",
	})
	want := []string{"HOME=/home/x", "LANG=de_DE.UTF-8", "PATH=/bin", "TMPDIR=/var/tmp", "USER=x", "http_proxy=http://p:1", "no_proxy=localhost"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestBaseEnvSetsVariablesMissingInDaemons(t *testing.T) {
	got := BaseEnv(nil)
	for _, name := range []string{"PATH", "HOME", "USER", "LANG"} {
		if Getenv(got, name) == "" {
			t.Errorf("%s is not set in %q", name, got)
		}
	}
}

func TestSetenvReplaces(t *testing.T) {
	before := []string{"A=1", "B=2", "A=3"}
	if got := Getenv(before, "A"); got != "3" {
		t.Errorf("A is %q, want the last one", got)
	}
	got := Setall(before, map[string]string{"A": "4", "C": "5"})
	if want := []string{"B=2", "A=4", "C=5"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Equal(before, []string{"A=1", "B=2", "A=3"}) {
		t.Errorf("the list given was changed: %q", before)
	}
}

func TestPasswordOfAProxyIsMasked(t *testing.T) {
	var log bytes.Buffer
	spec := sh("echo $https_proxy")
	spec.Env, spec.Log = Setenv(spec.Env, "https_proxy", "http://me:hunter2@proxy:3128"), &log
	if err := Run(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if want := "http://me:(sensitive)@proxy:3128\nExit code: 0\n"; log.String() != want {
		t.Errorf("log is %q, want %q", &log, want)
	}
}
