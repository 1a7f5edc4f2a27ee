package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/npctl/npctl/watch"
)

// await returns when check reports done, the wait is over, or the daemon stops. It calls check after each event of the
// subject, and every pollEvery for changes that the journal does not report.
func await(ctx context.Context, wait time.Duration, journal *watch.Journal, subject string, check func() (done bool, err error)) error {
	hints, forget := journal.Wait()
	defer forget()
	seen := journal.Newest()
	if done, err := check(); done || err != nil || wait <= 0 {
		return err
	}
	c := callOf(ctx)
	c.extendDeadline(wait)
	over := time.NewTimer(wait)
	defer over.Stop()
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-c.ending:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		case <-hints:
			newest := journal.Newest()
			news := journal.Since(seen, subject)
			if seen = newest; len(news) == 0 {
				continue
			}
		}
		if c.r.Method == http.MethodGet && c.revoked() { // a call that has changed something still gets its result
			return unauthorized(c.w)
		}
		if done, err := check(); done || err != nil {
			return err
		}
	}
}
