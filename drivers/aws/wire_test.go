package aws

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/internal/testutil"
)

// wire wraps transports: it counts calls, loses responses and responds in place of AWS. Its zero value is usable.
type wire struct {
	imports awstest.Imports

	mu      sync.Mutex
	calls   map[string]int              // guarded by mu; by action
	lose    map[string]bool             // guarded by mu; actions of which the next successful response is lost
	answers map[string]func() *response // guarded by mu; nil results pass the call
	refuses map[string]*response        // guarded by mu; responses to RunInstances by instance type
	refused int                         // guarded by mu; number of these responses
}

type response struct {
	status int
	body   string
}

// apiFault is an error response of EC2: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
func apiFault(status int, code, message string) *response {
	return &response{status, `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>` + code + `</Code><Message>` + message +
		`</Message></Error></Errors><RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>`}
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		action := awstest.ActionOf(r)
		w.mu.Lock()
		if w.calls == nil {
			w.calls = map[string]int{}
		}
		w.calls[action]++
		answer, lose := w.answers[action], w.lose[action]
		if form, _ := awstest.FormOf(r); action == "RunInstances" && w.refuses[form.Get("InstanceType")] != nil {
			w.refused++
			answer = func() *response { return w.refuses[form.Get("InstanceType")] }
		}
		w.mu.Unlock()
		if answer != nil {
			if a := answer(); a != nil {
				return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
			}
		}
		resp, err := awstest.Moto{Next: next, Imports: &w.imports}.RoundTrip(r)
		if err == nil && lose && resp.StatusCode < 300 {
			w.mu.Lock()
			delete(w.lose, action)
			w.mu.Unlock()
			resp.Body.Close()
			return nil, errors.New("connection reset by test")
		}
		return resp, err
	})
}

func (w *wire) count() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, calls := range w.calls {
		n += calls
	}
	return n
}

// answer responds to an action in place of AWS.
func (w *wire) answer(action string, f func() *response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answers == nil {
		w.answers = map[string]func() *response{}
	}
	w.answers[action] = f
}

// refuse responds to requests for an instance type in place of AWS. It returns the number of these requests so far.
func (w *wire) refuse(instanceType string, with *response) (requests func() int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses = map[string]*response{instanceType: with}
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.refused
	}
}

func (w *wire) loseNext(action string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = map[string]bool{action: true}
}
