package main

import (
	"path/filepath"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/location"
)

// location.Location returns the location of the state: that of -state, or that of the state block relative to the
// configuration, or the default beside the configuration.
func (a *app) stateLocation(s resources.Settings) (location.Location, error) {
	if a.global.state != "" {
		path, err := filepath.Abs(a.global.state)
		return location.InFile(path), err
	}
	return location.From(s.State, s.Dir)
}

// findState returns the location of the state for commands that need nothing else of the configuration. Such a command
// is fast and works even if other parts of the configuration have errors.
func (a *app) findState() (location.Location, error) {
	if a.global.state != "" {
		path, err := filepath.Abs(a.global.state)
		return location.InFile(path), err
	}
	if place, ok := location.Plain(a.global.config); ok {
		path, err := filepath.Abs(place.File)
		place.File = path
		return place, err
	}
	c, err := a.load(variableOptions{})
	if err != nil {
		return location.Location{}, err
	}
	return a.stateLocation(c.Desired.Settings)
}
