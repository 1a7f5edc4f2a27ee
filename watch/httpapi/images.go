package httpapi

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// images returns the configured and recorded images.
func (s *Server) images() []wire.Image {
	records, _ := s.records()
	return (&inspect.Fleet{Desired: s.daemon.Desired(), Observed: plan.Observed{Records: records}}).Stored()
}

func (c *call) listImages() (any, error) { return wire.Images{Images: c.images()}, nil }

func (c *call) showImage() (any, error) {
	all := c.images()
	names := make([]string, len(all))
	for i := range all {
		if all[i].Name == c.id() {
			return all[i], nil
		}
		names[i] = all[i].Name
	}
	return nil, unknown("image", c.id(), names)
}

// unknown returns a not-found error with the nearest existing name as a hint.
func unknown(what, name string, names []string) error {
	f := notFound("there is no %s %s", what, quoted(name))
	if near := text.Nearest(name, names); near != "" {
		f.hint = "did you mean " + quoted(near) + "?"
	}
	return f
}

func (c *call) pauseImage() (any, error) {
	why, err := body[wire.Pause](c)
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(why.Reason) > idLength {
		return nil, invalid("the reason is longer than %d characters", idLength)
	}
	return c.setPaused(true, why.Reason)
}

func (c *call) unpauseImage() (any, error) { return c.setPaused(false, "") }

// setPaused records whether an image is paused. It retries when another writer changes the record concurrently.
func (c *call) setPaused(paused bool, reason string) (any, error) {
	found, err := c.showImage()
	if err != nil {
		return nil, err
	}
	img := found.(wire.Image)
	if err = watch.RetryConflict(c.ctx(), func() error { return c.writePaused(c.ctx(), img, paused, reason) }); err != nil {
		return nil, err
	}
	code, text := "unpaused", "builds are allowed again"
	if paused {
		code, text = "paused", "no builds until it is unpaused"
	}
	if reason != "" {
		text += ": " + reason
	}
	c.daemon.Journal.Add(resources.Event{Time: c.daemon.Engine.Now(), Subject: "image/" + img.Name, Code: code, Text: text})
	return c.showImage()
}

func (c *call) writePaused(ctx context.Context, img wire.Image, paused bool, reason string) error {
	record, revision := resources.ImageRecord{Name: img.Name, Kind: img.Kind}, state.Revision(0)
	entry, err := c.daemon.Engine.Store.Get(ctx, resources.Key{Kind: resources.KindImage, ID: img.Name})
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
	_, err = c.daemon.Runner().Commit(ctx, state.Op{Record: &record, Revision: revision})
	return err
}
