package sandboxcloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Action is what a fault does to a call.
type Action string

// The actions, and the way of real services each stands for.
const (
	// Answer gives Status (with RetryAfter and Message) and does nothing: 429 of a rate limit, 500, 503.
	Answer Action = "answer"
	// OverQuota refuses as the service does when the project's quota is used up.
	OverQuota Action = "over_quota"
	// ServerError accepts the server and lets its build end as ERROR with Message as fault ("No valid host was found."). A
	// snapshot is accepted, and its image vanishes.
	ServerError Action = "server_error"
	// LostBefore cuts the connection and does nothing.
	LostBefore Action = "lost_before"
	// LostAfter does what was asked and cuts the connection instead of answering.
	LostAfter Action = "lost_after"
	// Slow waits for Delay before anything else.
	Slow Action = "slow"
	// HangBefore does nothing until the client gives up.
	HangBefore Action = "hang_before"
	// HangAfter does what was asked and does not answer until the client gives up.
	HangAfter Action = "hang_after"
	// LateEffect cuts the connection, and what was to be made appears, or a server that was to go goes, only Delay later.
	LateEffect Action = "late_effect"
	// LateListing keeps a new object out of lists, and a deleted one in them, for Delay.
	LateListing Action = "late_listing"
	// DeleteFails answers a server's delete with 204, yet the server ends as ERROR. A second delete works.
	DeleteFails Action = "delete_fails"
	// LateAddress shows an associated floating IP in its server's addresses only after Delay.
	LateAddress Action = "late_address"
	// CutUpload breaks the connection in the middle of an upload; the image is queued again.
	CutUpload Action = "cut_upload"
	// StuckSaving takes an upload whole and leaves the image in "saving".
	StuckSaving Action = "stuck_saving"
	// Truncate does what was asked and cuts the connection in the middle of the answer.
	Truncate Action = "truncate"
	// Corrupt changes a byte of an image that is downloaded.
	Corrupt Action = "corrupt"
)

// Actions lists every action.
func Actions() []Action {
	return []Action{
		Answer, OverQuota, ServerError, LostBefore, LostAfter, Slow, HangBefore, HangAfter, LateEffect, LateListing,
		DeleteFails, LateAddress, CutUpload, StuckSaving, Truncate, Corrupt,
	}
}

// Fault is one way in which the cloud misbehaves, and when. In all patterns * stands for any text and ? for any one
// character; an empty one matches everything.
type Fault struct {
	Operation string // pattern of operations, such as server.create or image.*
	Method    string // pattern of HTTP methods
	Path      string // pattern of URL paths
	Name      string // pattern of names of what is made, read or deleted

	// Of the calls that match, the first After go well; of the rest each Every-th fails (0 and 1: each), with
	// Probability (0 means always), and no more than Times (0: no end).
	After       int
	Every       int
	Times       int
	Probability float64

	Action     Action
	Status     int           // of Answer
	RetryAfter time.Duration // of Answer; whole seconds
	Message    string        // of Answer and ServerError
	Delay      time.Duration // of Slow, LateEffect, LateListing and LateAddress
}

// Check finds mistakes.
func (f Fault) Check() error {
	switch {
	case !slices.Contains(Actions(), f.Action):
		return fmt.Errorf("unknown action %q; one of %s", f.Action, joinActions())
	case f.Action == Answer && (f.Status < 300 || f.Status > 599):
		return fmt.Errorf("status %d cannot be answered; an HTTP status from 300 to 599 is needed", f.Status)
	case f.After < 0 || f.Every < 0 || f.Times < 0:
		return fmt.Errorf("after, every and times cannot be negative")
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("probability %v is not between 0 and 1", f.Probability)
	case f.Delay < 0 || f.RetryAfter < 0:
		return fmt.Errorf("delay and retry_after cannot be negative")
	case f.needsDelay() && f.Delay == 0:
		return fmt.Errorf("action %q needs a delay", f.Action)
	case f.Operation != "" && !KnownOperation(f.Operation):
		return fmt.Errorf("no operation is called %q; one of %s", f.Operation, strings.Join(Operations(), ", "))
	}
	return nil
}

func (f Fault) needsDelay() bool {
	return f.Action == Slow || f.Action == LateEffect || f.Action == LateListing || f.Action == LateAddress
}

func joinActions() string {
	names := make([]string, 0, len(Actions()))
	for _, a := range Actions() {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}

// always reports whether the fault needs no counting.
func (f Fault) always() bool {
	return f.After == 0 && f.Every <= 1 && f.Times == 0 && f.Probability == 0
}

// status is what Answer answers.
func (f Fault) refusal() error {
	message := f.Message
	if message == "" {
		message = http.StatusText(f.Status)
	}
	return &apiError{status: f.Status, message: message, retryAfter: f.RetryAfter}
}

// faultJSON is a Fault as files have it, with durations such as "2s".
type faultJSON struct {
	Operation   string  `json:"operation,omitempty"`
	Method      string  `json:"method,omitempty"`
	Path        string  `json:"path,omitempty"`
	Name        string  `json:"name,omitempty"`
	After       int     `json:"after,omitempty"`
	Every       int     `json:"every,omitempty"`
	Times       int     `json:"times,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	Action      Action  `json:"action"`
	Status      int     `json:"status,omitempty"`
	RetryAfter  string  `json:"retry_after,omitempty"`
	Message     string  `json:"message,omitempty"`
	Delay       string  `json:"delay,omitempty"`
}

// MarshalJSON writes durations as text.
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultJSON{
		f.Operation, f.Method, f.Path, f.Name, f.After, f.Every, f.Times, f.Probability, f.Action, f.Status,
		durationText(f.RetryAfter), f.Message, durationText(f.Delay),
	})
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Fault) UnmarshalJSON(text []byte) error {
	var j faultJSON
	if err := strictJSON(text, &j); err != nil {
		return err
	}
	retryAfter, err := parseDuration("retry_after", j.RetryAfter)
	if err != nil {
		return err
	}
	delay, err := parseDuration("delay", j.Delay)
	if err != nil {
		return err
	}
	*f = Fault{
		j.Operation, j.Method, j.Path, j.Name, j.After, j.Every, j.Times, j.Probability, j.Action, j.Status,
		retryAfter, j.Message, delay,
	}
	return nil
}

func parseDuration(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}
