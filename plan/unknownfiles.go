package plan

import (
	"slices"
	"strings"
)

// maxUnknownFiles is the number of files that the note names.
const maxUnknownFiles = 3

// unknownFiles notes image files that the state has no record of and that are not known to be its own, as after the
// state was lost. Another state may use them, so they are never deleted.
func (c *computation) unknownFiles() {
	seen := c.seen
	if seen.FilesOf == seen.Installation && seen.Installation != "" {
		return // files without a record are leaks then, and have steps
	}
	var names []string
	for _, f := range seen.Files {
		if id := BuildIDOfFile(f.Name); id != "" && c.world.build[id] == nil {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	shown := strings.Join(names[:min(len(names), maxUnknownFiles)], ", ")
	if len(names) > maxUnknownFiles {
		shown += ", …"
	}
	of := "them"
	if len(names) == 1 {
		of = "it"
	}
	c.note(Info, "unknown-files", "", c.want.Settings.Source,
		"%s in images_dir without a record in this state (%s): a lost or another state has built %s; npctl does not delete %[3]s",
		plural(len(names), "image file"), shown, of)
}
