package drivertest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func sweeperTests() []test {
	can := []string{"sweeper", "Leftovers"}
	return []test{
		{"AbilityMatchesSetup", nil, func(t *testing.T, s *suite) { _, ok := drivers.SweeperOf(s.Cloud); s.checkAbility(t, "sweeper", ok) }},
		{"EveryTypeIsTestedOrOmitted", []string{"sweeper"}, everyTypeIsTested},
		{"WhatStaysBehindIsListedAndRemoved", can, eachLeftover(leftoverGoes)},
		{"WhatCarriesOtherMarksIsLeftAlone", can, eachLeftover(otherMarksStay)},
		{"WhatCarriesMarksOfAnotherTypeIsLeftAlone", can, eachLeftover(otherTypeStays)},
		{"WhatCarriesNoMarksIsLeftAlone", can, eachLeftover(unmarkedStays)},
		{"WhatIsInUseByNowIsLeftAlone", can, eachLeftover(inUseStays)},
		{"WhatAnotherObjectUsesByNowIsLeftAlone", can, eachLeftover(movedStays)},
	}
}

func everyTypeIsTested(t *testing.T, s *suite) {
	for _, kind := range resources.LeftoverTypes {
		if _, tested := s.Leftovers[kind]; tested == (s.Omits[kind] != "") {
			t.Errorf("Setup.Leftovers has %s: %t; the reason in Setup.Omits is %q", kind, tested, s.Omits[kind])
		}
	}
}

// sweep is the test of one type of leftovers.
type sweep struct {
	*suite
	drivers.Sweeper
	Leftover
	kind string
}

func eachLeftover(run func(*testing.T, sweep)) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		for _, kind := range slices.Sorted(maps.Keys(s.Leftovers)) {
			run(t, s.sweep(kind))
		}
	}
}

func (s *suite) sweep(kind string) sweep {
	sweeper, _ := drivers.SweeperOf(s.Cloud)
	return sweep{s, sweeper, s.Leftovers[kind], kind}
}

// leaveAll creates a leftover of each type.
func (s *suite) leaveAll(t *testing.T) (all []resources.Leftover) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(s.Leftovers)) {
		one := s.sweep(kind)
		all = append(all, one.Leave(t, one.marks()))
	}
	return all
}

// marks are the ownership tags of a new record that has objects of the type.
func (w sweep) marks() resources.OwnerTags {
	if w.isOfUploads() {
		return w.imageSpec(nil).Marks
	}
	return w.spec().Marks
}

func (w sweep) isOfUploads() bool {
	return w.kind == resources.LeftoverSnapshot || w.kind == resources.LeftoverObject
}

// listed returns the leftover with an ID.
func (w sweep) listed(t *testing.T, id string) (resources.Leftover, error) {
	t.Helper()
	list, err := w.Leftovers(t.Context())
	if err != nil {
		return resources.Leftover{}, err
	}
	i := slices.IndexFunc(list, func(l resources.Leftover) bool { return l.ID == id })
	if i < 0 {
		return resources.Leftover{}, fmt.Errorf("the %s %s is not listed", w.kind, id)
	}
	return list[i], nil
}

// seen waits until a leftover is listed.
func (w sweep) seen(t *testing.T, id string, inUse bool) (seen resources.Leftover) {
	t.Helper()
	w.eventually(t, func() (err error) {
		if seen, err = w.listed(t, id); err == nil && seen.InUse != inUse {
			err = fmt.Errorf("the %s %s is in use: %t, want %t", w.kind, id, seen.InUse, inUse)
		}
		return err
	})
	return seen
}

func leftoverGoes(t *testing.T, w sweep) {
	marks := w.marks()
	left := w.Leave(t, marks)
	seen := w.seen(t, left.ID, false)
	if seen.Type != w.kind || !seen.Marks.SameRecord(marks) {
		t.Errorf("leftover is %+v, want a %s of %s %s", seen, w.kind, marks.Kind, marks.ID)
	}
	if !slices.Contains(resources.LeftoverTypes, seen.Type) {
		t.Errorf("leftover has type %s, want one of %q", seen.Type, resources.LeftoverTypes)
	}
	for range 2 {
		testutil.Must(t, w.DeleteLeftover(t.Context(), seen))
	}
	w.eventually(t, func() error {
		if _, err := w.listed(t, left.ID); err == nil {
			return fmt.Errorf("the %s %s is still listed", w.kind, left.ID)
		}
		return nil
	})
}

func otherMarksStay(t *testing.T, w sweep) {
	left := w.Leave(t, w.marks())
	left.Marks.ID = "another"
	if err := w.DeleteLeftover(t.Context(), left); err == nil {
		t.Errorf("DeleteLeftover deleted a %s with other ownership tags than expected", w.kind)
	}
	if _, err := w.listed(t, left.ID); err != nil {
		t.Error(err)
	}
}

// otherTypeStays gives an object the tags of a record that has no objects of its type, as a backup of an image or a node does.
func otherTypeStays(t *testing.T, w sweep) {
	if w.OfAny {
		return
	}
	marks := w.spec().Marks
	if !w.isOfUploads() {
		marks = w.imageSpec(nil).Marks
	}
	w.stays(t, w.Leave(t, marks), "the ownership tags of "+string(marks.Kind)+" "+marks.ID)
}

// unmarkedStays asks for the deletion of another's object as a listing without ownership tags would name it.
func unmarkedStays(t *testing.T, w sweep) {
	w.stays(t, w.Leave(t, resources.OwnerTags{}), "no ownership tags")
}

// stays checks that an object is neither listed nor deleted.
func (w sweep) stays(t *testing.T, left resources.Leftover, with string) {
	t.Helper()
	ours := w.Leave(t, w.marks())
	w.seen(t, ours.ID, false)
	if _, err := w.listed(t, left.ID); err == nil {
		t.Errorf("the %s %s is listed, with %s", left.Type, left.ID, with)
	}
	switch err := w.DeleteLeftover(t.Context(), left); {
	case errors.Is(err, drivers.ErrNotOurs):
	case w.Stays == nil || err != nil:
		t.Errorf("DeleteLeftover of a %s with %s: %v, want ErrNotOurs", left.Type, with, err)
	default:
		if err := w.Stays(t, left.ID); err != nil {
			t.Errorf("DeleteLeftover of a %s with %s: %v", left.Type, with, err)
		}
	}
}

func inUseStays(t *testing.T, w sweep) {
	if !w.isUsed(t) {
		return
	}
	left := w.Leave(t, w.marks())
	seen := w.seen(t, left.ID, false)
	defer w.Use(t, seen)()
	if err := w.DeleteLeftover(t.Context(), seen); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("DeleteLeftover of a %s that was attached after it was listed: %v, want ErrNotOurs", w.kind, err)
	}
	w.seen(t, left.ID, true)
}

// movedStays attaches a leftover to one object before it is listed, and to another one afterwards. A plan deletes the first case if that
// object is a server that is gone.
func movedStays(t *testing.T, w sweep) {
	if !w.isUsed(t) {
		return
	}
	left := w.Leave(t, w.marks())
	end := w.Use(t, left)
	seen := w.seen(t, left.ID, true)
	end()
	defer w.Use(t, left)()
	if err := w.DeleteLeftover(t.Context(), seen); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("DeleteLeftover of a %s that was attached to another object after it was listed: %v, want ErrNotOurs", w.kind, err)
	}
	if now := w.seen(t, left.ID, true); now.Server == seen.Server && seen.Server != "" {
		t.Errorf("the %s %s is in use by %q, want another object", w.kind, left.ID, now.Server)
	}
}

// isUsed reports whether objects of the type are ever in use.
func (w sweep) isUsed(t *testing.T) bool {
	t.Helper()
	if (w.Use == nil) == (w.Unused == "") {
		t.Errorf("Setup.Leftovers of %s has a function Use: %t; the reason for none is %q", w.kind, w.Use != nil, w.Unused)
	}
	return w.Use != nil
}
