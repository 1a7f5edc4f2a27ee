package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Compute returns the plan. It does no I/O and reads no clock: its arguments are its only input.
//
// It is a pipeline of parts. Each part reads the world, adds its steps to the draft, and returns the decisions that
// later parts depend on.
func Compute(want resources.Desired, seen Observed, opt Options) Plan {
	w := newWorld(want, markLockHolderBusy(withoutRelocated(seen)), opt)
	d := newDraft(w)
	d.noteWorker()
	d.deferUnreachable()
	d.cloudProblems()
	use := newCapacity(w)
	nodes := planNodes(w, d, use)
	planStaticNodes(w, d, use, nodes)
	images := planImages(w, d)
	use.setQuota(d.deletedBy)
	place := newPlacement(w, d, use, images)
	waiting := planRequests(w, d, use, place, nodes)
	planMinReady(w, d, use, place, nodes)
	leaks := planLeaks(w, d, nodes.lost)
	d.noteForeignResources()
	d.unknownFiles()
	planRecords(w, d, leaks)
	d.unknownReplace()
	return finish(w, d, waiting)
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}
