package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/zookeeper"
)

// stateLocation is the location of a state.
type stateLocation struct {
	// file is the state itself, or the private file of this process beside a shared state. It determines the socket of
	// npctl watch in both cases.
	file   string
	shared *zookeeper.Options // nil: the file is the state
}

// fileLocation returns the location of a state in a file.
func fileLocation(path string) stateLocation { return stateLocation{file: path} }

// shadowLocation returns the location for a shadow: the same shared state with another private file.
func (p stateLocation) shadowLocation() stateLocation {
	ext := filepath.Ext(p.file)
	p.file = strings.TrimSuffix(p.file, ext) + ".shadow" + ext
	return p
}

// String returns the location in the form for messages.
func (p stateLocation) String() string {
	if p.shared == nil {
		return p.file
	}
	return "ZooKeeper at " + p.shared.String()
}

// at returns the location with a preposition.
func (p stateLocation) at() string {
	if p.shared == nil {
		return "at " + p.file
	}
	return "of npctl in " + p.String()
}

// same reports whether two locations are equal, so that a store opened at one is valid for the other.
func (p stateLocation) same(q stateLocation) bool {
	return p.file == q.file && p.String() == q.String()
}

// isEmpty reports whether no state can exist at the location. It reports false for ZooKeeper, which must be queried
// first.
func (p stateLocation) isEmpty() bool {
	return p.shared == nil && !exists(p.file)
}

// stateLocation returns the location of the state: that of -state, or that of the state block relative to the
// configuration, or the default beside the configuration.
func (a *app) stateLocation(s resources.Settings) (stateLocation, error) {
	if a.global.state != "" {
		path, err := filepath.Abs(a.global.state)
		return fileLocation(path), err
	}
	return locationFrom(s.State, s.Dir)
}

// locationFrom returns the location in a state block.
func locationFrom(s resources.StateSettings, dir string) (stateLocation, error) {
	switch s.Kind {
	case stateZooKeeper:
		opts, file, err := zookeeper.FromConfig(s.Config, dir)
		if err != nil {
			return stateLocation{}, err
		}
		return stateLocation{file: file, shared: &opts}, nil
	case stateBolt, "":
		return fileLocation(boltPath(s.Config, dir)), nil
	default:
		return stateLocation{}, fmt.Errorf("this npctl has no state %q", s.Kind)
	}
}

func boltPath(v cty.Value, dir string) string {
	path := bolt.DefaultPath
	if v != cty.NilVal && !v.IsNull() && v.Type().HasAttribute("path") {
		if p := v.GetAttr("path"); !p.IsNull() && p.IsKnown() && !p.IsMarked() {
			path = p.AsString()
		}
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// findState returns the location of the state for commands that need nothing else of the configuration. Such a command
// is fast and works even if other parts of the configuration have errors.
func (a *app) findState() (stateLocation, error) {
	if a.global.state != "" {
		path, err := filepath.Abs(a.global.state)
		return fileLocation(path), err
	}
	if place, ok := plainState(a.global.config); ok {
		path, err := filepath.Abs(place.file)
		place.file = path
		return place, err
	}
	c, err := a.load(variableOptions{})
	if err != nil {
		return stateLocation{}, err
	}
	return a.stateLocation(c.Desired.Settings)
}
