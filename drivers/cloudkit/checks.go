package cloudkit

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// CheckFilled returns the check of a list that needs an element, such as "instance type such as t3.micro".
func CheckFilled(element string) schema.Check {
	return func(v cty.Value) error {
		if v.LengthInt() == 0 {
			return fmt.Errorf("the list is empty; write at least one %s", element)
		}
		return nil
	}
}

// CheckBytes returns the check of the length of a text, such as "user data", which a node receives.
func CheckBytes(what, service string, limit int) schema.Check {
	return func(v cty.Value) error {
		if n := len(v.AsString()); n > limit {
			return fmt.Errorf("%s has %d bytes, %s accepts %d; download the rest from the node instead", what, n, service, limit)
		}
		return nil
	}
}

// CheckLeftover returns ErrNotOurs if a leftover, as it is now, must not be deleted: it has lost its ownership tags since it was listed, or
// it is in use, except by the server that the list named, of which a plan knows that it is gone.
func CheckLeftover(listed, now resources.Leftover) error {
	switch {
	case !now.Marks.SameRecord(listed.Marks), listed.Marks.Installation == "":
		return fmt.Errorf("delete %s %s: %w: its ownership tags changed after it was listed; npctl does not delete it", listed.Type, listed.ID, drivers.ErrNotOurs)
	case now.InUse && (!listed.InUse || now.Server == "" || now.Server != listed.Server):
		return fmt.Errorf("delete %s %s: %w: another object uses it; npctl does not delete it", listed.Type, listed.ID, drivers.ErrNotOurs)
	}
	return nil
}
