package client

import "os"

// ownerOf knows no owner: Windows protects a socket by the access list of its directory.
func ownerOf(os.FileInfo) (int, bool) { return 0, false }
