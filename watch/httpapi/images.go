package httpapi

import (
	"context"
	"errors"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// imageRoutes answers the calls about images.
type imageRoutes struct{ daemon *watch.Daemon }

func (m imageRoutes) list(context.Context, *none) (wire.Images, error) {
	records, _ := m.daemon.Runner().Records()
	w := inspect.Fleet{Desired: m.daemon.Desired(), Observed: plan.Observed{Records: records}}
	return wire.Images{Images: w.Stored()}, nil
}

func (m imageRoutes) show(ctx context.Context, in *Named) (wire.Image, error) {
	all, _ := m.list(ctx, nil)
	return find("image", in.ID, all.Images, func(i wire.Image) string { return i.Name })
}

// find returns the object with a name, or a not-found error with the nearest name as a hint.
func find[T any](what, wanted string, all []T, name func(T) string) (found T, err error) {
	names := make([]string, len(all))
	for i, one := range all {
		if names[i] = name(one); names[i] == wanted {
			return one, nil
		}
	}
	return found, notFound(didYouMean(wanted, names, ""), "there is no %s %s", what, text.Quote(wanted))
}

func (m imageRoutes) pause(ctx context.Context, in *with[wire.Pause]) (wire.Image, error) {
	return m.setPaused(ctx, &in.Named, true, in.Body.Reason)
}

func (m imageRoutes) unpause(ctx context.Context, in *Named) (wire.Image, error) {
	return m.setPaused(ctx, in, false, "")
}

// setPaused records whether an image is paused. It retries when another writer changes the record concurrently.
func (m imageRoutes) setPaused(ctx context.Context, in *Named, paused bool, reason string) (wire.Image, error) {
	img, err := m.show(ctx, in)
	if err != nil {
		return img, err
	}
	if err = watch.RetryConflict(ctx, func() error { return m.writePaused(ctx, img, paused, reason) }); err != nil {
		return img, err
	}
	code, what := "unpaused", "builds are allowed again"
	if paused {
		code, what = "paused", "no builds until it is unpaused"
	}
	if reason != "" {
		what += ": " + reason
	}
	m.daemon.Journal.Add(resources.Event{Time: m.daemon.Engine.Now(), Subject: "image/" + img.Name, Code: code, Text: what})
	return m.show(ctx, in)
}

func (m imageRoutes) writePaused(ctx context.Context, img wire.Image, paused bool, reason string) error {
	record, revision := resources.ImageRecord{Name: img.Name, Kind: img.Kind}, state.Revision(0)
	entry, err := m.daemon.Engine.Store.Get(ctx, resources.Key{Kind: resources.KindImage, ID: img.Name})
	switch {
	case err == nil:
		record, revision = *entry.Record.(*resources.ImageRecord), entry.Revision
	case !errors.Is(err, state.ErrNotFound):
		return err
	case !paused:
		return nil
	}
	if record.Paused == paused && record.PauseReason == reason {
		return nil
	}
	record.Paused, record.PauseReason = paused, reason
	_, err = m.daemon.Runner().Commit(ctx, state.Op{Record: &record, Revision: revision})
	return err
}
