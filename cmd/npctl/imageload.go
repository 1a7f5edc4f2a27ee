package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/location"
)

// imageState is the input of the views of images, and why the configuration cannot be read.
type imageState struct {
	inspect.ImageInput
	configError error
}

// detail selects how much of the state loadState loads.
type detail int

const (
	fullDetail detail = iota // with the steps of the next plan
	namesOnly                // only the names of images
)

// loadState reads the configuration and the state; it queries no cloud. If the configuration has errors, loadState
// returns the records only and sets configError, so that the images can be inspected during an incident.
func (c *imageCommand) loadState(ctx context.Context, how detail) (imageState, error) {
	config, err := c.load(c.variableOptions)
	if err != nil {
		return c.loadRecords(ctx, err)
	}
	s, err := c.openSession(ctx, config, 0, readState)
	if err != nil {
		return imageState{}, err
	}
	defer s.close()
	if how == namesOnly {
		seen, err := recordsOf(ctx, s.engine)
		return imageState{ImageInput: inspect.ImageInput{Desired: config.Desired, Observed: seen}}, err
	}
	seen, err := s.engine.Observe(ctx, false)
	if err != nil {
		return imageState{}, err
	}
	logs, images := buildLogDir(config.Desired.Settings), imagesDir(config.Desired.Settings)
	return imageState{ImageInput: inspect.ImageInput{
		Desired: config.Desired, Observed: seen, Next: plan.Compute(config.Desired, seen, plan.Options{NoRefresh: true}),
		OnDisk: func(file string) (int64, bool) { return diskUse(filepath.Join(images, file)) },
		Log:    func(image, build string) string { return existing(buildLogPath(logs, image, build)) },
	}}, nil
}

// loadRecords reads the records when the configuration cannot be read. It returns wrong if the state cannot be located
// or does not exist.
func (c *imageCommand) loadRecords(ctx context.Context, wrong error) (imageState, error) {
	place, ok := c.plainPlace()
	if !ok || place.IsEmpty() {
		return imageState{}, wrong
	}
	store, err := c.openState(ctx, place, true)
	if err != nil {
		return imageState{}, err
	}
	defer store.Close() //nolint:errcheck // read-only file
	seen, err := recordsOf(ctx, reconcile.New(reconcile.Options{Store: store}))
	return imageState{ImageInput: inspect.ImageInput{Observed: seen}, configError: wrong}, err
}

// plainPlace returns the location of the state without evaluating the configuration. It reports false if that is not
// possible.
func (c *imageCommand) plainPlace() (location.Location, bool) {
	if c.global.state != "" {
		return location.InFile(c.global.state), true
	}
	return location.Plain(c.global.config)
}

// recordsOf returns the records of the state and nothing else.
func recordsOf(ctx context.Context, engine *reconcile.Engine) (plan.Observed, error) {
	engine = reconcile.New(reconcile.Options{Store: engine.Store})
	seen, err := engine.Observe(ctx, false)
	seen.Files = nil // the engine has no images directory
	return seen, err
}

// warnConfigError prints the reason why the configuration cannot be read.
func (c *imageCommand) warnConfigError(w imageState) {
	if w.configError == nil {
		return
	}
	var diags *diagnosed
	if errors.As(w.configError, &diags) {
		c.ui.diagnostics(diags)
	} else {
		c.ui.failure(w.configError)
	}
	c.ui.message("%s cannot read the configuration; showing stored records only.", c.ui.style(styleWarning, "Warning:"))
}

// imagesDir, buildLogDir and buildLogPath return the paths where package reconcile stores image files and logs.
func imagesDir(s resources.Settings) string { return fromDir(s, s.ImagesDir) }

func buildLogDir(s resources.Settings) string {
	if s.BuildLogDir == "" {
		return filepath.Join(imagesDir(s), "logs")
	}
	return fromDir(s, s.BuildLogDir)
}

func fromDir(s resources.Settings, dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(s.Dir, dir)
}

func buildLogPath(dir, image, build string) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%s.log", image, build))
}

func existing(path string) string {
	if !exists(path) {
		return ""
	}
	return path
}

// diskUse returns the disk space that a file occupies, in bytes. It is less than the file size for a sparse image.
func diskUse(path string) (int64, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512, true
	}
	return info.Size(), true
}
