package snapshot_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/builders/snapshot"
)

func TestContract(t *testing.T) {
	buildertest.Run(t, buildertest.Harness{
		New:   func() builders.Builder { return &snapshot.Builder{LogLimit: buildertest.LogLimit} },
		Parse: `output=$TOOL_OUTPUT formats=raw`,
		Config: func(tool buildertest.Tool) cty.Value {
			return config(map[string]cty.Value{
				"inline":           cty.StringVal(fmt.Sprintf("exec sh %s %s", tool.Script, tool.Mode)),
				"private_key_file": cty.StringVal("../key/id"),
				"secret_env":       cty.MapVal(map[string]cty.Value{"TOOL_SECRET": cty.StringVal(tool.Secret)}),
			})
		},
		Formats: []string{"raw"},
		Foreign: "qcow2",
		Prepare: func(t *testing.T, job *builders.Job, output string) {
			m, key := newMachine(t)
			m.output = output
			job.Instances = m
			job.Config = buildertest.With(job.Config, map[string]cty.Value{"private_key_file": cty.StringVal(key)})
			t.Cleanup(func() {
				if noted := m.noted(); len(noted) > 0 && noted[len(noted)-1] != "close" {
					t.Errorf("the machine stays: %q", noted)
				}
				if left, _ := filepath.Glob(filepath.Join(job.Dir, "*.part")); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			})
		},
		Elsewhere: true,
	})
}

// config returns a block with the written attributes and the defaults.
func config(written map[string]cty.Value) cty.Value {
	return buildertest.With(buildertest.With(new(snapshot.Builder).Schema().Null(), map[string]cty.Value{
		"provider": cty.StringVal("cloud"), "label": cty.StringVal("base"),
	}), written)
}
