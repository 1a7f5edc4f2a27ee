package cloudkit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/npctl/npctl/drivers"
)

// partTries is the number of attempts to send one part of an image: clouds throttle large uploads, and an upload of gigabytes must
// not start again for one part.
const partTries = 8

// SendPart sends a part of an image, again after errors that may be transient. limit is that of one attempt.
func SendPart(ctx context.Context, limit time.Duration, send func(context.Context) error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := send(limited)
		if err != nil && (errors.Is(err, drivers.ErrRejected) || ctx.Err() != nil) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxTries(partTries))
	return err
}

// Sent counts the bytes of an image that are stored, or need not be sent because they are zero.
type Sent struct {
	Report func(int64) // receives the sum, one call at a time; may be nil
	Size   int64       // the largest sum; 0 means no limit

	mu  sync.Mutex
	sum int64 // guarded by mu
}

// Add adds a number of bytes.
func (s *Sent) Add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum += int64(n)
	if s.Size > 0 {
		s.sum = min(s.sum, s.Size)
	}
	if s.Report != nil && n > 0 {
		s.Report(s.sum)
	}
}
