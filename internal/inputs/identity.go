//go:build unix

package inputs

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identify returns a text that changes with a file's content. Unlike the modification time, the inode's change time
// cannot be set back.
func identify(info fs.FileInfo) string {
	text := fmt.Sprintf("%d %d %o", info.Size(), info.ModTime().UnixNano(), info.Mode())
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		text += fmt.Sprintf(" %d %d %v", stat.Dev, stat.Ino, changed(stat))
	}
	return text
}
