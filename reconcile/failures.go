package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// ErrProviderUnreachable is the error of a postponed launch: the provider does not respond. A Runner does not log it as
// an error, because the daemon plans the retry and reports the outage once for all launches.
var ErrProviderUnreachable = errors.New("the provider does not answer")

// isUnreachable reports whether an error means that the provider does not respond now, and says nothing about the
// request.
func isUnreachable(err error) bool {
	return (errors.Is(err, drivers.ErrUnavailable) || errors.Is(err, drivers.ErrThrottled)) && drivers.IsTransient(err)
}

// errorLength is the maximum length in bytes of an error text in a record.
const errorLength = 2000

// rejected reports whether a retry cannot succeed.
func rejected(err error) bool { return errors.Is(err, drivers.ErrRejected) }

// faultKind returns the kind of an error. It is empty for an error that may be transient.
func faultKind(err error) resources.FaultKind {
	switch {
	case errors.Is(err, drivers.ErrQuota):
		return resources.FaultQuota
	case errors.Is(err, drivers.ErrCapacity):
		return resources.FaultCapacity
	case errors.Is(err, drivers.ErrRejected):
		return resources.FaultRejected
	case errors.Is(err, ErrProviderUnreachable):
		return resources.FaultUnavailable
	default:
		return ""
	}
}

// changeImage applies a change to the record of an image until no other process has changed it in between. Other
// processes may change it at the same time, for example npctl image pause.
func (l *recordCache) changeImage(ctx context.Context, name string, kind resources.ImageKind, change func(*resources.ImageRecord)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	key := resources.Key{Kind: resources.KindImage, ID: name}
	for {
		record, revision := &resources.ImageRecord{Name: name, Kind: kind}, state.Revision(0)
		entry, err := l.store.Get(ctx, key)
		if err == nil {
			record, revision = entry.Record.(*resources.ImageRecord), entry.Revision
		} else if !errors.Is(err, state.ErrNotFound) {
			return fmt.Errorf("read state: %w", err)
		}
		before := cloneImage(record)
		change(record)
		if revision != 0 && reflect.DeepEqual(before, record) {
			l.refreshEntry(ctx, entry)
			return nil
		}
		entries, err := l.store.Commit(ctx, state.Op{Record: record, Revision: revision})
		if err == nil {
			l.refreshEntry(ctx, entries[0])
			return nil
		}
		if !errors.Is(err, state.ErrConflict) {
			return fmt.Errorf("update the record of the image: %w", err)
		}
	}
}

func cloneImage(r *resources.ImageRecord) *resources.ImageRecord {
	c := *r
	c.MissingVersions = slices.Clone(r.MissingVersions)
	if r.Failure != nil {
		f := *r.Failure
		c.Failure = &f
	}
	if r.Uploads != nil {
		c.Uploads = make(map[string]*resources.Failure, len(r.Uploads))
		for provider, f := range r.Uploads {
			one := *f
			c.Uploads[provider] = &one
		}
	}
	return &c
}

// uploadFailed records another failed upload of the image to a provider.
func uploadFailed(r *resources.ImageRecord, provider string, now time.Time, cause error, build string) {
	if r.Uploads == nil {
		r.Uploads = map[string]*resources.Failure{}
	}
	r.Uploads[provider] = failedAgain(r.Uploads[provider], now, cause, build)
}

// failedAgain returns the failure to record after another one.
func failedAgain(before *resources.Failure, now time.Time, cause error, build string) *resources.Failure {
	f := &resources.Failure{Count: 1, Time: now, Kind: faultKind(cause), Error: cause.Error(), Build: build}
	if before != nil {
		f.Count += before.Count
	}
	if len(f.Error) > errorLength {
		f.Error = f.Error[:errorLength] + " ..."
	}
	return f
}
