package imagefile

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// nextData finds the next part of a file, at or after at, that is no hole. At the end both are total.
func nextData(file *os.File, at, total int64) (begin, end int64, err error) {
	begin, err = file.Seek(at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return total, total, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return at, total, nil
	case err != nil:
		return 0, 0, err
	}
	end, err = file.Seek(begin, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, err
	}
	_, err = file.Seek(at, io.SeekStart)
	return min(begin, total), min(end, total), err
}
