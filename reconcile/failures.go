package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// ErrAway is why a launch was put off: the provider does not answer. A Runner logs no error then: who plans the next try is to
// tell, once for all launches.
var ErrAway = errors.New("the provider does not answer")

// away reports whether an error says of a provider that it is not there for now, and nothing of what it was asked for.
func away(err error) bool {
	return (errors.Is(err, drivers.ErrUnavailable) || errors.Is(err, drivers.ErrThrottled)) && drivers.MayPass(err)
}

// errorLength is how much of an error is kept in a record.
const errorLength = 2000

// gonesAtMost is how many versions of a source are remembered as gone.
const gonesAtMost = 50

// changeImage changes what is remembered of an image. Others may do so at the same time, npctl image pause among them.
func (x *execution) changeImage(ctx context.Context, name string, kind resources.ImageKind, change func(*resources.ImageRecord)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	key := resources.Key{Kind: resources.KindImage, ID: name}
	for {
		record, revision := &resources.ImageRecord{Name: name, Kind: kind}, state.Revision(0)
		entry, err := x.Store.Get(ctx, key)
		if err == nil {
			record, revision = entry.Record.(*resources.ImageRecord), entry.Revision
		} else if !errors.Is(err, state.ErrNotFound) {
			return fmt.Errorf("read state: %w", err)
		}
		before := cloneImage(record)
		change(record)
		if revision != 0 && reflect.DeepEqual(before, record) {
			x.ledger.know(ctx, entry)
			return nil
		}
		entries, err := x.Store.Commit(ctx, state.Op{Record: record, Revision: revision})
		if err == nil {
			x.ledger.know(ctx, entries[0])
			return nil
		}
		if !errors.Is(err, state.ErrConflict) {
			return fmt.Errorf("update the record of the image: %w", err)
		}
	}
}

func cloneImage(r *resources.ImageRecord) *resources.ImageRecord {
	c := *r
	c.Gone = slices.Clone(r.Gone)
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

// uploadFailed notes one more failure to bring the image to a provider.
func (x *execution) uploadFailed(r *resources.ImageRecord, provider string, cause error, build string) {
	if r.Uploads == nil {
		r.Uploads = map[string]*resources.Failure{}
	}
	r.Uploads[provider] = x.failedAgain(r.Uploads[provider], cause, build)
}

// failedAgain is what is remembered after one more failure.
func (x *execution) failedAgain(before *resources.Failure, cause error, build string) *resources.Failure {
	f := &resources.Failure{Count: 1, Time: x.Now(), Kind: faultKind(cause), Error: cause.Error(), Build: build}
	if before != nil {
		f.Count += before.Count
	}
	if len(f.Error) > errorLength {
		f.Error = f.Error[:errorLength] + " ..."
	}
	return f
}

// faultKind tells the errors that need somebody to do something from those that may pass.
func faultKind(err error) resources.FaultKind {
	switch {
	case errors.Is(err, drivers.ErrQuota):
		return resources.FaultQuota
	case errors.Is(err, drivers.ErrCapacity):
		return resources.FaultCapacity
	case errors.Is(err, drivers.ErrRejected):
		return resources.FaultRejected
	case errors.Is(err, ErrAway):
		return resources.FaultUnavailable
	default:
		return ""
	}
}
