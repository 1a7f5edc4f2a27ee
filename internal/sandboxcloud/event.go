package sandboxcloud

import (
	"sort"
	"time"
)

// eventKind is something that happens by itself when its time has come.
type eventKind string

const (
	serverBuilds   eventKind = "server_builds"    // scheduling is over, spawning begins
	serverIsActive eventKind = "server_is_active" // the build is done
	serverFails    eventKind = "server_fails"     // the build has failed; Text says why
	serverGoes     eventKind = "server_goes"      // its delete is done
	serverStays    eventKind = "server_stays"     // its delete has failed; Text says why
	imageIsActive  eventKind = "image_is_active"  // the store has taken the upload
	imageIsTaken   eventKind = "image_is_taken"   // of a server, whose id is Text
	volumeIsThere  eventKind = "volume_is_there"  // its creation is done
	volumeGoes     eventKind = "volume_goes"      // its delete is done
	rowIsForgotten eventKind = "row_is_forgotten" // a deleted row that lingered in lists
)

// event is due at a time. Events are kept in the order in which they happen.
type event struct {
	At   time.Time `json:"at"`
	Kind eventKind `json:"kind"`
	ID   string    `json:"id"`
	Text string    `json:"text,omitempty"`
}

// schedule adds an event after those of the same time.
func (w *world) schedule(at time.Time, kind eventKind, id, text string) {
	i := sort.Search(len(w.Events), func(i int) bool { return w.Events[i].At.After(at) })
	w.Events = append(w.Events, event{})
	copy(w.Events[i+1:], w.Events[i:])
	w.Events[i] = event{at, kind, id, text}
}

// due reports whether settle has something to do.
func (w *world) due(now time.Time) bool {
	return len(w.Events) > 0 && !w.Events[0].At.After(now)
}

// settle lets everything happen that is due. It depends on the state and the time alone, so that every process that
// reads the file sees the same without writing it.
func (w *world) settle(now time.Time) {
	for w.due(now) {
		e := w.Events[0]
		w.Events = w.Events[1:]
		w.happen(e)
	}
}

func (w *world) happen(e event) {
	switch e.Kind {
	case serverBuilds, serverIsActive, serverFails, serverGoes, serverStays:
		if s, ok := w.Servers.byID[e.ID]; ok {
			w.serverEvent(s, e)
		}
	case imageIsActive:
		if i, ok := w.Images.byID[e.ID]; ok && i.Status == "saving" {
			i.Status, i.Updated = "active", e.At
		}
	case imageIsTaken:
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

// forget drops a row that was deleted before and only lingered in lists.
func (w *world) forget(id string) {
	w.Servers.remove(id)
	w.Images.remove(id)
	w.Ports.remove(id)
	w.FloatingIPs.remove(id)
	w.Volumes.remove(id)
}

// retire deletes a row, at once or, when a fault wants lists to be late, from lists only at its time.
func retire[T object](w *world, t *table[T], row T, now, lingers time.Time) {
	m := row.meta()
	if !lingers.After(now) {
		t.remove(m.ID)
		return
	}
	m.Gone, m.Lingers = true, lingers
	w.schedule(lingers, rowIsForgotten, m.ID, "")
}
