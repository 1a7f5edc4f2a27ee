package bolt

import (
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// identityOf returns the volume and the index of a file.
func identityOf(f *os.File, _ os.FileInfo) (dev, ino uint64) {
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return 0, 0
	}
	return uint64(info.VolumeSerialNumber), uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow)
}

// mapFile returns the first bytes of a file. They are valid until release.
func mapFile(f *os.File, length int) (data []byte, release func(), err error) {
	data = make([]byte, length)
	_, err = io.ReadFull(io.NewSectionReader(f, 0, int64(length)), data)
	return data, func() {}, err
}
