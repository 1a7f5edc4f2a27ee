package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

func TestChangedInputFilesAreNamed(t *testing.T) {
	before := map[string]string{"build.sh": "1", "files/a": "1", "files/b": "1"}
	for name, test := range map[string]struct {
		recorded, now map[string]string
		want          []FileChange
	}{
		"changes":         {before, map[string]string{"build.sh": "1", "files/b": "2", "files/c": "1"}, []FileChange{{"files/a", FileRemoved}, {"files/b", FileChanged}, {"files/c", FileAdded}}},
		"an older record": {nil, before, nil},
		"too many now":    {before, nil, nil},
	} {
		c := &world{seen: Observed{Records: Records{Templates: []*resources.Template{{Hash: "v1:00", Files: test.recorded}}}}}
		if diff := cmp.Diff(test.want, c.changedFiles("v1:00", test.now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestImageHashesStayTheSame guards against hashes that would rebuild every image at an upgrade.
func TestImageHashesStayTheSame(t *testing.T) {
	got := ImageHashes(resources.Hashes{"v1:0123456789abcdef0123456789abcdef"}, "v1:fedcba9876543210fedcba9876543210")
	if diff := cmp.Diff(resources.Hashes{"v1:3607a71e7928d3d3ca3211ab801825e8"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
