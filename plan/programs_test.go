package plan

import (
	"slices"
	"testing"
)

func TestMissingProgramsAreNoted(t *testing.T) {
	converter := []Program{{Name: "qemu-img", Package: "qemu-utils"}}
	build := Step{Action: ActionBuild, Address: "diskimage.debian", Image: "debian", Formats: []string{"qcow2", "raw"}}
	convert := Step{Action: ActionConvert, Address: "diskimage.debian", Image: "debian", Format: "vhd"}
	const noQemu = "this host lacks qemu-img, so the build of diskimage.debian will fail; install the Debian package qemu-utils"
	for name, test := range map[string]struct {
		seen  Observed
		steps []Step
		want  []string
	}{
		"nothing is missing": {Observed{Tools: map[string]Tools{"debian": {Formats: []string{"raw"}}}}, []Step{build, convert}, nil},
		"the builder's program": {
			Observed{Tools: map[string]Tools{"debian": {Missing: []Program{{Name: "make-image"}}, Formats: []string{"qcow2", "raw"}}}}, []Step{build},
			[]string{"this host lacks make-image, so the build of diskimage.debian will fail"},
		},
		"a conversion in the build":  {Observed{Converter: converter, Tools: map[string]Tools{"debian": {Formats: []string{"raw"}}}}, []Step{build, build}, []string{noQemu}},
		"no conversion in the build": {Observed{Converter: converter, Tools: map[string]Tools{"debian": {Formats: []string{"qcow2", "raw"}}}}, []Step{build}, nil},
		"unknown builder":            {Observed{Converter: converter}, []Step{build}, nil},
		"a conversion": {
			Observed{Converter: converter}, []Step{convert},
			[]string{"this host lacks qemu-img, so the conversion of diskimage.debian will fail; install the Debian package qemu-utils"},
		},
		"no such step": {Observed{Converter: converter}, []Step{{Action: ActionDelete, Image: "debian"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := review{&world{seen: test.seen}}
			var got []string
			for _, n := range c.missingPrograms(test.steps) {
				if n.Code != "program-missing" || n.Severity != Warning || n.Address != "diskimage.debian" {
					t.Errorf("note is %+v", n)
				}
				got = append(got, n.Text)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("notes are %q, want %q", got, test.want)
			}
		})
	}
}
