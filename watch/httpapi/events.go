package httpapi

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// A cursor is a position in the journal, written as NUMBER-EPOCH-MICROSECONDS. Event numbers restart with each daemon.
// The epoch identifies the daemon; when it differs, the time determines the position.

// eventRoutes answers the calls about events.
type eventRoutes struct {
	journal *watch.Journal
	now     func() time.Time
	epoch   string // identifies this process in cursors
}

func newEventRoutes(daemon *watch.Daemon) eventRoutes {
	return eventRoutes{daemon.Journal, daemon.Engine.Now, strings.ReplaceAll(uuid.NewString(), "-", "")[:12]}
}

func (e eventRoutes) cursor(number uint64, at time.Time) string {
	return fmt.Sprintf("%d-%s-%d", number, e.epoch, at.UnixMicro())
}

// eventNumber returns the number of the last event before the position of a cursor.
func (e eventRoutes) number(cursor string) (uint64, error) {
	text, rest, isCursor := strings.Cut(cursor, "-")
	number, err := strconv.ParseUint(text, 10, 63)
	epoch, micros, _ := strings.Cut(rest, "-")
	at, timeErr := strconv.ParseInt(micros, 10, 64)
	switch {
	case err != nil || isCursor && timeErr != nil:
		return 0, withHint(invalid("%s is not a position in the journal", quoted(cursor)), "use next of an earlier response, or a number")
	case !isCursor || epoch == e.epoch:
		return number, nil
	}
	number = 0
	for _, event := range e.journal.Since(0, "") {
		if event.Time.UnixMicro() <= at { // the order of events with the same time may differ
			number = event.Number
		}
	}
	return number, nil
}

// after returns the position that the call asks for, from the parameter after or the header Last-Event-ID, and whether
// the call has one.
func (e eventRoutes) after(c *call) (number uint64, given bool, err error) {
	text := c.values.Get("after")
	if text == "" {
		text = c.r.Header.Get("Last-Event-ID")
	}
	if text == "" || len(text) > idLength {
		return 0, false, nil
	}
	number, err = e.number(text)
	return number, true, err
}

func (e eventRoutes) list(c *call) (any, error) {
	if strings.Contains(c.r.Header.Get("Accept"), "text/event-stream") {
		return nil, e.stream(c)
	}
	number, given, err := e.after(c)
	if err != nil {
		return nil, err
	}
	var found []watch.Numbered
	newest := uint64(0)
	check := func() (bool, error) {
		newest = e.journal.Newest()
		found = e.journal.Since(number, c.values.Get("subject"))
		return len(found) > 0, nil
	}
	if err := c.await(e.journal, c.values.Get("subject"), check); err != nil {
		return nil, err
	}
	most := min(max(c.number("limit", pageSize), 1), pageAtMost)
	answer := wire.Events{Events: []wire.Event{}}
	if len(found) > most && given {
		found, newest = found[:most], found[most-1].Number
	}
	for _, event := range found[max(len(found)-most, 0):] {
		answer.Events = append(answer.Events, shownEvent(event))
	}
	at := e.now()
	if len(found) > 0 {
		at = found[len(found)-1].Time
	}
	answer.Next = e.cursor(max(newest, number), at)
	return answer, nil
}

func shownEvent(e watch.Numbered) wire.Event {
	if e.Related == nil {
		e.Related = []string{}
	}
	return wire.Event{Number: e.Number, Event: e.Event}
}

// stream sends events as they happen, until the client disconnects or the daemon stops.
func (e eventRoutes) stream(c *call) error {
	number, given, err := e.after(c)
	if err != nil {
		return err
	}
	if !given {
		number = e.journal.Newest()
	}
	hints, forget := e.journal.Wait()
	defer forget()
	s := c.stream("text/event-stream")
	for {
		newest := e.journal.Newest()
		for _, event := range e.journal.Since(number, c.values.Get("subject")) {
			if err := s.event(e.cursor(event.Number, event.Time), event); err != nil {
				return err
			}
			newest = max(newest, event.Number)
		}
		number = max(number, newest)
		if ended := s.pause(hints, ": alive\n\n"); ended {
			return nil
		}
	}
}
