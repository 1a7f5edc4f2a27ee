package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// imageState is the input of the views of images, and why the configuration cannot be read.
type imageState struct {
	inspect.ImageInput
	configError error
	journal     *watch.Journal
}

// detail selects how much of the state loadState loads.
type detail int

const (
	namesOnly   detail = iota // only the records
	fullDetail                // with the steps of the next plan
	withJournal               // and the journal
)

// loadState reads the configuration and the state; it queries no cloud. If the configuration has errors, loadState
// returns the records only and sets configError, so that the state can be inspected during an incident. It returns
// that error if the state cannot be located or does not exist.
func (a *app) loadState(ctx context.Context, v variableOptions, how detail) (w imageState, err error) {
	config, err := a.load(v)
	if err != nil {
		place, unknown := a.findState()
		if unknown != nil || place.IsEmpty() {
			return w, err
		}
		w.configError = err
		store, err := place.open(ctx, readState)
		if err != nil {
			return w, err
		}
		defer store.Close() //nolint:errcheck // read-only file
		return w, w.read(ctx, store, how)
	}
	s, err := a.openSession(ctx, config, 0, readState)
	if err != nil {
		return w, err
	}
	defer s.close()
	w.Desired = config.Desired
	if how > namesOnly {
		if w.Observed, err = s.observeWithLock(ctx, false); err != nil {
			return w, err
		}
		w.Next = plan.Compute(w.Desired, w.Observed, plan.Options{NoRefresh: true})
		logs, images := w.Desired.Settings.LogPath(), w.Desired.Settings.Path(w.Desired.Settings.ImagesDir)
		w.OnDisk = func(file string) (int64, bool) { return diskUse(filepath.Join(images, file)) }
		w.Log = func(image, build string) string {
			if path := buildLogPath(logs, image, build); exists(path) {
				return path
			}
			return ""
		}
	}
	return w, w.read(ctx, s.store, how)
}

// read adds the records, unless they are observed already, and the journal.
func (w *imageState) read(ctx context.Context, store state.Store, how detail) (err error) {
	if w.Observed.Now.IsZero() {
		w.Observed.Records, err = listRecords(ctx, store, resources.PlannedKinds()...)
	}
	if err != nil || how < withJournal {
		return err
	}
	w.journal, err = watch.OpenJournal(ctx, store)
	return err
}

// events returns the newest events that concern a subject, or of all events, oldest first.
func (w *imageState) events(subject string, limit int) []wire.Event {
	found := w.journal.Since(0, subject)
	shown := []wire.Event{}
	for _, e := range found[max(len(found)-limit, 0):] {
		e.Related = append([]string{}, e.Related...)
		shown = append(shown, wire.Event{Number: e.Number, Event: e.Event})
	}
	return shown
}

// warnConfigError prints the reason why the configuration cannot be read.
func (a *app) warnConfigError(w imageState) {
	if w.configError == nil {
		return
	}
	var diags *diagnosed
	if errors.As(w.configError, &diags) {
		a.diagnostics(diags)
	} else {
		a.failure(w.configError)
	}
	a.ui.Warning("Warning:", "cannot read the configuration; showing stored records only.")
}

// buildLogPath returns the path of a log that package reconcile has written.
func buildLogPath(dir, image, build string) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%s.log", image, build))
}

// diskUse returns the disk space that a file occupies, in bytes. It is less than the file size for a sparse image.
func diskUse(path string) (int64, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	return imagefile.Allocated(info), true
}
