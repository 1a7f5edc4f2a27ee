package emulator

import (
	"sort"
	"time"

	"github.com/google/uuid"
)

// eventKind is the kind of an event that happens automatically at its due time.
type eventKind string

const (
	serverBuilds   eventKind = "server_builds"    // scheduling ends, spawning starts
	serverIsActive eventKind = "server_is_active" // the build ends
	serverFails    eventKind = "server_fails"     // the build fails; Text is the reason
	serverGoes     eventKind = "server_goes"      // its deletion ends
	deleteFails    eventKind = "server_stays"     // its deletion fails; Text is the reason
	imageIsActive  eventKind = "image_is_active"  // the store has saved the upload
	imageSaved     eventKind = "image_is_taken"   // of the server with the ID in Text
	volumeIsThere  eventKind = "volume_is_there"  // its creation ends
	volumeGoes     eventKind = "volume_goes"      // its deletion ends
	rowIsForgotten eventKind = "row_is_forgotten" // ends the lingering of a deleted row in lists
)

// event happens at its due time. Events are sorted by that time.
type event struct {
	At   time.Time `json:"at"`
	Kind eventKind `json:"kind"`
	ID   string    `json:"id"`
	Text string    `json:"text,omitempty"`
}

// timeline numbers new objects and orders the events.
type timeline struct {
	LastSeq uint64  `json:"last_seq"`
	Events  []event `json:"events"`
}

// newBase returns the fields of a new object.
func (tl *timeline) newBase(project string, now time.Time) base {
	tl.LastSeq++
	return base{ID: uuid.NewString(), Project: project, Seq: tl.LastSeq, Created: now, Updated: now}
}

// schedule adds an event after the existing events of the same time.
func (tl *timeline) schedule(at time.Time, kind eventKind, id, text string) {
	i := sort.Search(len(tl.Events), func(i int) bool { return tl.Events[i].At.After(at) })
	tl.Events = append(tl.Events, event{})
	copy(tl.Events[i+1:], tl.Events[i:])
	tl.Events[i] = event{at, kind, id, text}
}

// due reports whether an event is due.
func (tl *timeline) due(now time.Time) bool {
	return len(tl.Events) > 0 && !tl.Events[0].At.After(now)
}

// settle executes the due events. The result depends only on the state and the time, so that every process that reads
// the file computes the same state without writing it.
func (w *cloudState) settle(now time.Time) {
	for w.due(now) {
		e := w.Events[0]
		w.Events = w.Events[1:]
		w.fire(e)
	}
}

func (w *cloudState) fire(e event) {
	switch e.Kind {
	case serverBuilds, serverIsActive, serverFails, serverGoes, deleteFails:
		if s, ok := w.Servers.byID[e.ID]; ok {
			w.serverEvent(s, e)
		}
	case imageIsActive:
		if i, ok := w.Images.byID[e.ID]; ok && i.Status == "saving" {
			i.Status, i.Updated = "active", e.At
		}
	case imageSaved:
		if i, ok := w.Images.byID[e.ID]; ok {
			w.snapshotEvent(i, e)
		}
	case volumeIsThere, volumeGoes:
		if v, ok := w.Volumes.byID[e.ID]; ok {
			w.volumeEvent(v, e)
		}
	case rowIsForgotten:
		w.forget(e.ID)
	}
}

// forget removes a row that was deleted and only lingered in lists.
func (w *cloudState) forget(id string) {
	w.Servers.remove(id)
	w.Images.remove(id)
	w.Ports.remove(id)
	w.FloatingIPs.remove(id)
	w.Volumes.remove(id)
}

// retire deletes a row, or only marks it as deleted if a fault delays lists.
func retire[T object](events *timeline, t *table[T], row T, now, lingers time.Time) {
	m := row.meta()
	if !lingers.After(now) {
		t.remove(m.ID)
		return
	}
	m.Gone, m.ListedUntil = true, lingers
	events.schedule(lingers, rowIsForgotten, m.ID, "")
}
