//go:build unix

package inputs

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identify changes when a file's content does. The inode's own time cannot be set back, as the modification time can.
func identify(info fs.FileInfo) string {
	text := fmt.Sprintf("%d %d %o", info.Size(), info.ModTime().UnixNano(), info.Mode())
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		text += fmt.Sprintf(" %d %d %v", stat.Dev, stat.Ino, changed(stat))
	}
	return text
}
