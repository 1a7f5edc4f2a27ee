package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
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
	digits, rest, isCursor := strings.Cut(cursor, "-")
	number, err := strconv.ParseUint(digits, 10, 63)
	epoch, micros, _ := strings.Cut(rest, "-")
	at, timeErr := strconv.ParseInt(micros, 10, 64)
	switch {
	case err != nil || isCursor && timeErr != nil:
		return 0, invalid("use next of an earlier response, or a number", "%s is not a position in the journal", text.Quote(cursor))
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

func (e eventRoutes) list(ctx context.Context, in *listEvents) (answer wire.Events, err error) {
	cursor, number := cmp.Or(in.After, in.LastEvent), uint64(0)
	if cursor != "" {
		if number, err = e.number(cursor); err != nil {
			return answer, err
		}
	}
	if strings.Contains(in.Accept, "text/event-stream") {
		if cursor == "" {
			number = e.journal.Newest()
		}
		return answer, e.stream(callOf(ctx), number, in.Subject)
	}
	var found []watch.Numbered
	newest := uint64(0)
	check := func() (bool, error) {
		newest = e.journal.Newest()
		found = e.journal.Since(number, in.Subject)
		return len(found) > 0, nil
	}
	if err := await(ctx, in.Wait.Duration, e.journal, in.Subject, check); err != nil {
		return answer, err
	}
	most := min(max(in.Limit, 1), pageAtMost)
	answer.Events = []wire.Event{}
	if len(found) > most && cursor != "" {
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

// stream sends the events after number as they happen, until the client disconnects or the daemon stops.
func (e eventRoutes) stream(c *call, number uint64, subject string) error {
	hints, forget := e.journal.Wait()
	defer forget()
	s := c.stream("text/event-stream")
	for {
		newest := e.journal.Newest()
		for _, event := range e.journal.Since(number, subject) {
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

// stream is a response that stays open.
type stream struct {
	*call
	flush *http.ResponseController
	beat  *time.Ticker
	check *time.Ticker // checks whether the token is still valid
}

// stream starts a response that stays open.
func (c *call) stream(media string) *stream {
	s := &stream{call: c, flush: http.NewResponseController(c.w), beat: time.NewTicker(streamBeats), check: time.NewTicker(readEvery)}
	c.allowAnswer(answerTime)
	c.w.Header().Set("Content-Type", media)
	c.w.WriteHeader(http.StatusOK)
	_ = s.flush.Flush() // a later write reports that the client has disconnected
	return s
}

// write sends a piece of the response. It fails when the client does not read it within answerTime.
func (s *stream) write(text string) error {
	s.allowAnswer(answerTime)
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.flush.Flush()
}

// line sends v as a JSON document on one line.
func (s *stream) line(v any) error {
	text, err := marshal(v)
	if err != nil {
		return err
	}
	return s.write(string(text) + "\n")
}

func (s *stream) event(id string, e watch.Numbered) error {
	text, err := marshal(shownEvent(e))
	if err != nil {
		return err
	}
	return s.write("id: " + id + "\nevent: " + eventWord(e.Event) + "\ndata: " + string(text) + "\n\n")
}

// eventWord returns the code of an event without the characters that an SSE field cannot contain.
func eventWord(e resources.Event) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, e.Code)
}

// pause waits for a hint and writes sign every streamBeats to keep the connection alive. It returns true when hints is
// closed, the client disconnects, the daemon stops, or the client's token was revoked.
func (s *stream) pause(hints <-chan struct{}, sign string) (ended bool) {
	for {
		select {
		case _, open := <-hints:
			return !open || s.revoked()
		case <-s.check.C:
			if s.revoked() {
				return true
			}
		case <-s.beat.C:
			if s.write(sign) != nil {
				return true
			}
		case <-s.ending:
			return true
		case <-s.r.Context().Done():
			return true
		}
	}
}
