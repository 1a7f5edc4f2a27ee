package qemu

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/testutil"
)

func TestProgramsGetACleanEnvironment(t *testing.T) {
	t.Setenv(secretVariable, "secret")
	p := fakePlace(t)
	create(t, p.open(t, limits()), p.spec("1", nil))
	program := filepath.Join(t.TempDir(), "qemu-system-x86_64")
	testutil.WriteProgram(t, program, fmt.Sprintf("#!/bin/sh\n[ -z \"$%s\" ] && exit %d\n", secretVariable, kvmExitCode))
	if err := runBootSector(program); err != nil {
		t.Errorf("the test of KVM inherits the environment: %v", err)
	}
}

func TestSandbox(t *testing.T) {
	p := fakePlace(t)
	c := p.open(t, limits())
	for id, test := range map[string]struct{ args, want []string }{
		"1": {nil, []string{sandboxValue}},
		"2": {[]string{sandboxOption, "off"}, []string{"off"}},
		"3": {[]string{noSandbox}, nil},
	} {
		offer := values{}
		if len(test.args) > 0 {
			offer["args"] = words(test.args...)
		}
		m := create(t, c, p.spec(id, offer))
		pid, err := holderOf(c.file(m.ID, filePID))
		testutil.Must(t, err)
		args := strings.Split(testutil.ReadFile(t, fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00")
		var got []string
		for i, arg := range args {
			if arg == sandboxOption {
				got = append(got, args[i+1])
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("with %q: sandboxes %q, want %q", test.args, got, test.want)
		}
	}
}

func words(all ...string) cty.Value {
	var list []cty.Value
	for _, word := range all {
		list = append(list, cty.StringVal(word))
	}
	return cty.ListVal(list)
}
