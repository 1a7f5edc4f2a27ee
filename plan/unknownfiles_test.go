package plan

import (
	"slices"
	"strings"
	"testing"
)

func TestUnknownImageFilesAreNoted(t *testing.T) {
	file := func(n int) ImageFile { return ImageFile{Name: "debian-" + buildID(n) + ".raw", Size: 1 << 30} }
	lost := []ImageFile{file(71), file(72), file(73), file(74), {Name: "readme.txt"}}
	for name, test := range map[string]struct {
		files                []ImageFile
		owner, installation  string
		noted, named, hidden string
	}{
		"another state's":           {files: lost, owner: "elsewhere", installation: "here", noted: "4 image files", named: buildID(73), hidden: buildID(74)},
		"before the first run":      {files: lost[:1], owner: "elsewhere", noted: "1 image file in images_dir", named: "npctl does not delete it"},
		"no owner of the directory": {files: lost[:1], installation: "here", noted: "1 image file", named: buildID(71), hidden: "readme"},
		"our own":                   {files: lost, owner: "here", installation: "here"},
		"other files":               {files: lost[4:], owner: "elsewhere", installation: "here"},
	} {
		want, seen := fleet(), settled()
		seen.Files, seen.ImagesDirOwner, seen.Installation = append(seen.Files, test.files...), test.owner, test.installation
		p := Compute(want, seen, Options{})
		notes := slices.DeleteFunc(slices.Clone(p.Notes), func(n Note) bool { return n.Code != "unknown-files" })
		if test.noted == "" {
			if len(notes) > 0 {
				t.Errorf("%s: %v", name, notes)
			}
			continue
		}
		if len(notes) != 1 || !strings.HasPrefix(notes[0].Text, test.noted) || !strings.Contains(notes[0].Text, test.named) ||
			test.hidden != "" && strings.Contains(notes[0].Text, test.hidden) {
			t.Errorf("%s: the notes are %v", name, notes)
			continue
		}
		for _, s := range p.Steps {
			if s.Action == ActionDelete && strings.Contains(string(s.Address), "file") {
				t.Errorf("%s: %s is planned", name, s.Address)
			}
		}
	}
}
