package inputs

import (
	"fmt"
	"io/fs"
)

// identify returns a text that changes with the size or the modification time of a file.
func identify(info fs.FileInfo) string {
	return fmt.Sprintf("%d %d %o", info.Size(), info.ModTime().UnixNano(), info.Mode())
}
