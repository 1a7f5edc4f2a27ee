package httpapi

import (
	"net/http"
	"time"
)

// await returns when look reports done, the wait is over, or the daemon stops. It calls look after each event of the
// subject, and every pollEvery for changes that the journal does not report.
func (c *call) await(subject string, wait time.Duration, look func() (done bool, err error)) error {
	hints, forget := c.daemon.Journal.Wait()
	defer forget()
	seen := c.daemon.Journal.Newest()
	if done, err := look(); done || err != nil || wait <= 0 {
		return err
	}
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
		case <-c.ctx().Done():
			return c.ctx().Err()
		case <-again.C:
		case <-hints:
			newest := c.daemon.Journal.Newest()
			news := c.daemon.Journal.Since(seen, subject)
			if seen = newest; len(news) == 0 {
				continue
			}
		}
		if c.r.Method == http.MethodGet && c.revoked() { // a call that has changed something still gets its result
			return c.unauthorized()
		}
		if done, err := look(); done || err != nil {
			return err
		}
	}
}
