package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Action is the effect of a fault on a call.
type Action string

// The actions, with the real failures that they emulate.
const (
	// Answer responds with Status (with RetryAfter and Message) and does not execute the request: 429 of a rate
	// limit, 500, 503.
	Answer Action = "answer"
	// OverQuota rejects the request like the service does when the project's quota is used up.
	OverQuota Action = "over_quota"
	// ServerError accepts the server and lets its build end as ERROR with Message as fault ("No valid host was
	// found."). For a snapshot, it accepts the request and the image vanishes.
	ServerError Action = "server_error"
	// LostBefore cuts the connection and does not execute the request.
	LostBefore Action = "lost_before"
	// LostAfter executes the request and cuts the connection instead of responding.
	LostAfter Action = "lost_after"
	// Slow waits for Delay before the request.
	Slow Action = "slow"
	// HangBefore waits until the client gives up, without executing the request.
	HangBefore Action = "hang_before"
	// HangAfter executes the request and does not respond until the client gives up.
	HangAfter Action = "hang_after"
	// LateEffect cuts the connection; the created object appears, or the deleted server disappears, after Delay.
	LateEffect Action = "late_effect"
	// LateListing hides a new object from lists, or keeps a deleted one in them, for Delay.
	LateListing Action = "late_listing"
	// DeleteFails responds to a server's deletion with 204, but the server ends as ERROR. A second deletion works.
	DeleteFails Action = "delete_fails"
	// LateAddress shows an associated floating IP in its server's addresses only after Delay.
	LateAddress Action = "late_address"
	// CutUpload breaks the connection in the middle of an upload; the image returns to "queued".
	CutUpload Action = "cut_upload"
	// StuckSaving accepts a complete upload and leaves the image in "saving".
	StuckSaving Action = "stuck_saving"
	// Truncate executes the request and cuts the connection in the middle of the response.
	Truncate Action = "truncate"
	// Corrupt changes one byte of a downloaded image.
	Corrupt Action = "corrupt"
)

// actions lists every action.
func actions() []Action {
	return []Action{
		Answer, OverQuota, ServerError, LostBefore, LostAfter, Slow, HangBefore, HangAfter, LateEffect, LateListing,
		DeleteFails, LateAddress, CutUpload, StuckSaving, Truncate, Corrupt,
	}
}

// Fault describes one failure of the cloud and its conditions. In all patterns * matches any text and ? any one
// character; an empty pattern matches everything.
type Fault struct {
	Operation string // such as server.create or image.*
	Method    string // of HTTP
	Path      string // of the URL
	Name      string // of servers, images, ports and volumes, or the description of floating IPs

	// The first After matching calls succeed; of the others every Every-th fails (0 and 1: each), with Probability (0
	// means always), at most Times times (0 means no limit).
	After       int
	Every       int
	Times       int
	Probability float64

	Action     Action
	Status     int           // of Answer
	Message    string        // of Answer and ServerError
	RetryAfter time.Duration // of Answer, in whole seconds
	Delay      time.Duration // of Slow, LateEffect, LateListing and LateAddress
}

// check returns an error for an invalid fault.
func (f Fault) check() error {
	switch {
	case !slices.Contains(actions(), f.Action):
		return fmt.Errorf("unknown action %q; one of %s", f.Action, joinactions())
	case f.Action == Answer && (f.Status < 300 || f.Status > 599):
		return fmt.Errorf("status %d is not a response of a fault; write an HTTP status from 300 to 599", f.Status)
	case f.After < 0 || f.Every < 0 || f.Times < 0:
		return fmt.Errorf("after, every and times cannot be negative")
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("probability %v is not between 0 and 1", f.Probability)
	case f.Delay < 0 || f.RetryAfter < 0:
		return fmt.Errorf("delay and retry_after cannot be negative")
	case f.needsDelay() && f.Delay == 0:
		return fmt.Errorf("action %q needs a delay", f.Action)
	case f.Operation != "" && !knownOperation(f.Operation):
		return fmt.Errorf("unknown operation %q; one of %s", f.Operation, strings.Join(operations(), ", "))
	}
	return nil
}

func (f Fault) needsDelay() bool {
	return f.Action == Slow || f.Action == LateEffect || f.Action == LateListing || f.Action == LateAddress
}

func joinactions() string {
	names := make([]string, 0, len(actions()))
	for _, a := range actions() {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}

// always reports whether the fault needs no counting.
func (f Fault) always() bool {
	return f.After == 0 && f.Every <= 1 && f.Times == 0 && f.Probability == 0
}

// refusal returns the error response of Answer.
func (f Fault) refusal() error {
	message := f.Message
	if message == "" {
		message = http.StatusText(f.Status)
	}
	return &apiError{status: f.Status, message: message, retryAfter: f.RetryAfter}
}

// faultJSON is the file format of a Fault, with durations such as "2s".
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

// UnmarshalJSON reads the format of MarshalJSON.
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
		j.Message, retryAfter, delay,
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
