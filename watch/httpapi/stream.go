package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

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
		case <-s.r.Context().Done():
			return true
		}
	}
}
