package imagefile

import (
	"errors"
	"fmt"
	"io"
)

// Reader hands on what an io.ReadSeeker holds and checks it on the way: it is what an upload reads from. The bytes that
// complete the content are only handed out when its sums are right, so a damaged file never arrives whole.
//
// Seeking back to the start begins anew, as a retry does. Bytes read a second time after another seek backwards are not
// hashed again; skipping bytes forwards means that nothing can be verified, which is an error at the end.
type Reader struct {
	from     io.ReadSeeker
	want     Sums
	progress func(done int64)
	hasher   *Hasher
	hashed   int64 // bytes from the start that were hashed
	at       int64
	err      error // of the verification; sticks until a seek to the start
	verified bool
}

var _ io.ReadSeekCloser = (*Reader)(nil)

// NewReader checks from against want, whose size must be set; empty sums are not compared. Progress, when not nil, is
// told the position. Close must be called; it does not close from.
func NewReader(from io.ReadSeeker, want Sums, progress func(done int64)) *Reader {
	return &Reader{from: from, want: want, progress: progress, hasher: NewHasher()}
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.from.Read(p)
	if n > 0 {
		r.take(p[:n])
	}
	if r.hashed >= r.want.Size || err == io.EOF {
		if r.err = r.verify(err == io.EOF); r.err != nil {
			return 0, r.err
		}
	}
	if r.progress != nil {
		r.progress(r.at)
	}
	return n, err
}

// take hashes what was not hashed before.
func (r *Reader) take(p []byte) {
	begin := r.at
	r.at += int64(len(p))
	if begin <= r.hashed && r.at > r.hashed {
		_, _ = r.hasher.Write(p[r.hashed-begin:])
		r.hashed = r.at
	}
}

// verify compares once all bytes are known, or complains when the end came before that.
func (r *Reader) verify(ended bool) error {
	switch {
	case r.verified && r.hashed == r.want.Size:
		return nil
	case r.hashed > r.want.Size:
		return fmt.Errorf("%w: it goes on after its %d bytes", ErrMismatch, r.want.Size)
	case r.hashed == r.want.Size:
		r.verified = true
		return r.hasher.Sums().Check(r.want)
	case !ended:
		return nil
	case r.at > r.hashed:
		return errors.New("content was skipped, so its checksum is not known")
	case r.at == r.hashed:
		return fmt.Errorf("%w: it ends after %d bytes, want %d", ErrMismatch, r.at, r.want.Size)
	default:
		return nil
	}
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	at, err := r.from.Seek(offset, whence)
	if err != nil {
		return at, err
	}
	r.at = at
	if at == 0 {
		r.hasher.Close()
		r.hasher, r.hashed, r.err, r.verified = NewHasher(), 0, nil, false
	}
	return at, nil
}

// Verified reports whether all bytes were read and are right.
func (r *Reader) Verified() bool { return r.verified && r.err == nil }

// Close frees what hashing needs.
func (r *Reader) Close() error {
	r.hasher.Close()
	return nil
}
