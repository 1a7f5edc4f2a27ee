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

// statePlace says where a state is.
type statePlace struct {
	// file is the state, or what this process keeps for itself beside a shared one. The socket of npctl watch is found by
	// it in both cases.
	file   string
	shared *zookeeper.Options // nil: the file is the state
}

// filePlace is a state in a file.
func filePlace(path string) statePlace { return statePlace{file: path} }

// aside is the place for somebody who only looks on: the same state, and another file.
func (p statePlace) aside() statePlace {
	ext := filepath.Ext(p.file)
	p.file = strings.TrimSuffix(p.file, ext) + ".shadow" + ext
	return p
}

// String names the place to people.
func (p statePlace) String() string {
	if p.shared == nil {
		return p.file
	}
	return "ZooKeeper at " + p.shared.String()
}

// at is the place behind a preposition.
func (p statePlace) at() string {
	if p.shared == nil {
		return "at " + p.file
	}
	return "of npctl in " + p.String()
}

// same reports whether two places are one, to which the same goes that was opened at the other.
func (p statePlace) same(q statePlace) bool { return p.file == q.file && p.String() == q.String() }

// isEmpty reports whether nothing can be there. Of ZooKeeper that is not known before it was asked.
func (p statePlace) isEmpty() bool {
	return p.shared == nil && !exists(p.file)
}

// statePlace says where the state of a configuration is: -state wins, then the state block, relative to the
// configuration, then the default beside the configuration.
func (a *app) statePlace(s resources.Settings) (statePlace, error) {
	if a.global.state != "" {
		path, err := filepath.Abs(a.global.state)
		return filePlace(path), err
	}
	return placeFrom(s.State, s.Dir)
}

// placeFrom reads a state block.
func placeFrom(s resources.StateSettings, dir string) (statePlace, error) {
	switch s.Kind {
	case stateZooKeeper:
		opts, file, err := zookeeper.FromConfig(s.Config, dir)
		if err != nil {
			return statePlace{}, err
		}
		return statePlace{file: file, shared: &opts}, nil
	case stateBolt, "":
		return filePlace(boltPath(s.Config, dir)), nil
	default:
		return statePlace{}, fmt.Errorf("this npctl has no state %q", s.Kind)
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

// findState says where the state is for commands that need nothing else of the configuration: they should work, and
// fast, whatever is wrong with it.
func (a *app) findState() (statePlace, error) {
	if a.global.state != "" {
		path, err := filepath.Abs(a.global.state)
		return filePlace(path), err
	}
	if place, ok := plainState(a.global.config); ok {
		path, err := filepath.Abs(place.file)
		place.file = path
		return place, err
	}
	c, err := a.load(variableOptions{})
	if err != nil {
		return statePlace{}, err
	}
	return a.statePlace(c.Desired.Settings)
}
