package httpapi

import (
	"slices"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

func (c *call) listLabels() (any, error) {
	w := c.fleet()
	return wire.Labels{Labels: w.Labels()}, nil
}

func (c *call) showLabel() (any, error) {
	w := c.fleet()
	names := inspect.KnownLabels(w.Desired)
	if !slices.Contains(names, c.id()) {
		return nil, unknown("label", c.id(), names)
	}
	return w.Label(c.id()), nil
}
