//go:build !unix

package emulator

import "os"

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	return stamp{size: info.Size(), time: info.ModTime()}, nil
}
