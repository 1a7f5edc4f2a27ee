package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// thoroughness says how closely to look.
type thoroughness int

const (
	closely thoroughness = iota // with what the next plan would do
	quickly                     // just names
)

// look reads the configuration and the state; no cloud is asked. When the configuration cannot be understood, what is
// recorded has to do, and wrong in the world says why: whoever is woken at night should see what there is.
func (c *imageCommand) look(ctx context.Context, how thoroughness) (imageWorld, error) {
	config, err := c.load(c.variableOptions)
	if err != nil {
		return c.lookAtRecords(ctx, err)
	}
	s, err := c.openSession(ctx, config, 0, readState)
	if err != nil {
		return imageWorld{}, err
	}
	defer s.close()
	if how == quickly {
		seen, err := recordsOf(ctx, s.engine)
		return imageWorld{want: config.Desired, seen: seen}, err
	}
	seen, err := s.engine.Observe(ctx, false)
	if err != nil {
		return imageWorld{}, err
	}
	logs, images := buildLogDir(config.Desired.Settings), imagesDir(config.Desired.Settings)
	return imageWorld{
		want: config.Desired, seen: seen, next: plan.Compute(config.Desired, seen, plan.Options{NoRefresh: true}),
		onDisk: func(file string) (int64, bool) { return diskUse(filepath.Join(images, file)) },
		log:    func(image, build string) string { return existing(buildLogPath(logs, image, build)) },
	}, nil
}

// lookAtRecords is for when the configuration cannot be read. Without a state either, that is the error.
func (c *imageCommand) lookAtRecords(ctx context.Context, wrong error) (imageWorld, error) {
	place, ok := c.plainPlace()
	if !ok || place.isEmpty() {
		return imageWorld{}, wrong
	}
	store, err := c.openState(ctx, place, true)
	if err != nil {
		return imageWorld{}, err
	}
	defer store.Close() //nolint:errcheck // only read
	seen, err := recordsOf(ctx, reconcile.New(reconcile.Options{Store: store}))
	return imageWorld{seen: seen, wrong: wrong}, err
}

// plainPlace is where the state is as far as that can be told without understanding the configuration.
func (c *imageCommand) plainPlace() (statePlace, bool) {
	if c.global.state != "" {
		return filePlace(c.global.state), true
	}
	return plainState(c.global.config)
}

// recordsOf is what the state holds, and nothing else.
func recordsOf(ctx context.Context, engine *reconcile.Engine) (plan.Observed, error) {
	engine = reconcile.New(reconcile.Options{Store: engine.Store})
	seen, err := engine.Observe(ctx, false)
	seen.Files = nil // nobody looked into the right directory
	return seen, err
}

// tellWrong says that the configuration cannot be read, to people.
func (c *imageCommand) tellWrong(w imageWorld) {
	if w.wrong == nil {
		return
	}
	var diags *diagnosed
	if errors.As(w.wrong, &diags) {
		c.ui.diagnostics(diags)
	} else {
		c.ui.failure(w.wrong)
	}
	c.ui.talk("%s the configuration cannot be read, so only what is recorded is shown.", c.ui.style(styleWarning, "Warning:"))
}

// imagesDir, buildLogDir and buildLogPath say where package reconcile keeps image files and logs.
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

// diskUse is what a file takes on the disk, which for an image with holes is less than its size.
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
