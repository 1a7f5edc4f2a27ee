package plan

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// maxUnknownFiles is the number of files that the note names.
const maxUnknownFiles = 3

// ownsFiles reports whether the images directory belongs to the installation of the state.
func (o *Observed) ownsFiles() bool {
	return o.Installation != "" && o.ImagesDirOwner == o.Installation
}

// unknownFiles notes image files that have no record and are not known to belong to this state, as after a loss of
// the state. Another state may use them, so npctl never deletes them.
func (d *draft) unknownFiles() {
	seen := d.world.seen
	if seen.ownsFiles() {
		return // then files without a record are leaks and have steps
	}
	var names []string
	for _, f := range seen.Files {
		if id := BuildIDOfFile(f.Name); id != "" && d.world.build[id] == nil {
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
	d.note(Info, "unknown-files", "", d.world.want.Settings.Source,
		"%s in images_dir without a record in this state (%s): a lost or another state has built %s; npctl does not delete %[3]s",
		text.Count(len(names), "image file", "image files"), shown, of)
}
