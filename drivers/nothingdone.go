package drivers

import "errors"

// NothingDone is implemented by errors that prove that the cloud did nothing: a rejection, or a request that was
// never sent. After any other error, such as a timeout or a server error, the cloud may have executed the request or
// may still execute it.
type NothingDone interface {
	NothingDone() bool
}

// IsNothingDone reports whether the error proves that nothing was done.
func IsNothingDone(err error) bool {
	var proof NothingDone
	return errors.As(err, &proof) && proof.NothingDone()
}
