package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// A cursor is a position in the journal, written as NUMBER-EPOCH-MICROSECONDS. Event numbers restart with each daemon.
// The epoch identifies the daemon; when it differs, the time determines the position.

func (s *Server) cursor(number uint64, at time.Time) string {
	return fmt.Sprintf("%d-%s-%d", number, s.epoch, at.UnixMicro())
}

// eventNumber returns the number of the last event before the position of a cursor.
func (s *Server) eventNumber(cursor string) (uint64, error) {
	text, rest, isCursor := strings.Cut(cursor, "-")
	number, err := strconv.ParseUint(text, 10, 63)
	epoch, micros, _ := strings.Cut(rest, "-")
	at, timeErr := strconv.ParseInt(micros, 10, 64)
	switch {
	case err != nil || isCursor && timeErr != nil:
		return 0, withHint(invalid("%s is not a position in the journal", quoted(cursor)), "use next of an earlier response, or a number")
	case !isCursor || epoch == s.epoch:
		return number, nil
	}
	number = 0
	for _, e := range s.daemon.Journal.Since(0, "") {
		if e.Time.UnixMicro() <= at { // the order of events with the same time may differ
			number = e.Number
		}
	}
	return number, nil
}

// after returns the position that the call asks for, from the parameter after or the header Last-Event-ID, and whether
// the call has one.
func (c *call) after() (number uint64, given bool, err error) {
	text := c.values.Get("after")
	if text == "" {
		text = c.r.Header.Get("Last-Event-ID")
	}
	if text == "" || len(text) > idLength {
		return 0, false, nil
	}
	number, err = c.eventNumber(text)
	return number, true, err
}

func (c *call) listEvents() (any, error) {
	if strings.Contains(c.r.Header.Get("Accept"), "text/event-stream") {
		return nil, c.streamEvents()
	}
	number, given, err := c.after()
	if err != nil {
		return nil, err
	}
	var found []watch.Numbered
	newest := uint64(0)
	look := func() (bool, error) {
		newest = c.daemon.Journal.Newest()
		found = c.daemon.Journal.Since(number, c.values.Get("subject"))
		return len(found) > 0, nil
	}
	if err := c.await(c.values.Get("subject"), c.wait(), look); err != nil {
		return nil, err
	}
	most := min(max(c.number("limit", pageSize), 1), pageAtMost)
	answer := wire.Events{Events: []wire.Event{}}
	if len(found) > most && given {
		found, newest = found[:most], found[most-1].Number
	}
	for _, e := range found[max(len(found)-most, 0):] {
		answer.Events = append(answer.Events, shownEvent(e))
	}
	answer.Next = c.cursor(max(newest, number), c.timeOf(found))
	return answer, nil
}

func shownEvent(e watch.Numbered) wire.Event {
	if e.Related == nil {
		e.Related = []string{}
	}
	return wire.Event{Number: e.Number, Event: e.Event}
}

// timeOf returns the time of the last event, or the current time if the list is empty.
func (c *call) timeOf(events []watch.Numbered) time.Time {
	if len(events) == 0 {
		return c.daemon.Engine.Now()
	}
	return events[len(events)-1].Time
}

// streamEvents sends events as they happen, until the client disconnects or the daemon stops.
func (c *call) streamEvents() error {
	number, given, err := c.after()
	if err != nil {
		return err
	}
	if !given {
		number = c.daemon.Journal.Newest()
	}
	hints, forget := c.daemon.Journal.Wait()
	defer forget()
	s := c.stream("text/event-stream")
	for {
		newest := c.daemon.Journal.Newest()
		for _, e := range c.daemon.Journal.Since(number, c.values.Get("subject")) {
			if err := s.event(c.cursor(e.Number, e.Time), e); err != nil {
				return err
			}
			newest = max(newest, e.Number)
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
	c.extendDeadline(0)
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
		case <-s.ctx().Done():
			return true
		}
	}
}
