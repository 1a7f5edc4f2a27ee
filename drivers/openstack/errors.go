package openstack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// wrap adds the operation to an error and classifies it.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if again, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok {
		if gophercloud.ResponseCodeIs(again.ErrReauth, http.StatusUnauthorized) {
			return fmt.Errorf("%s: %w: Keystone no longer accepts the credentials", doing, drivers.ErrRejected)
		}
		return wrap(doing+": renew token", again.ErrReauth)
	}
	if answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return newAPIError(doing, answer.Actual, answer.Body, answer.ResponseHeader)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = cloudkit.Unanswered(err)
	}
	return cloudkit.WrapHTTP(doing, "set cacert in the clouds.yaml entry to the CA", err)
}

func newAPIError(doing string, status int, body []byte, header http.Header) *cloudkit.Error {
	message, after := messageOf(body), cloudkit.RetryAfter(header.Get("Retry-After"))
	e := &cloudkit.Error{
		Doing: doing, Status: status, Message: fmt.Sprintf("%s (%d)", message, status), After: after, Kind: kindOf(status, message, after),
		Request: cmp.Or(header.Get("X-Openstack-Request-Id"), header.Get("X-Compute-Request-Id")),
	}
	if message == "" {
		e.Message = fmt.Sprintf("%d %s", status, http.StatusText(status))
	}
	return e
}

// isStatus reports whether the cloud responded with that status.
func isStatus(err error, status int) bool {
	return cloudkit.StatusOf(err) == status || gophercloud.ResponseCodeIs(err, status)
}

var (
	quotaText    = drivers.Pattern(`(?i)quota|number of ports exceeded|limit ?exceeded|will exceed the limit|maximum number of \w+ (allowed|exceeded)`)
	capacityText = drivers.Pattern(`(?i)no valid host|exhausted all hosts|not enough|insufficient|no more ip addresses|no more fixed ips|no fixed ip addresses available|no free|resources? unavailable|out of (capacity|resources)`)
	rejectedText = drivers.Pattern(`(?i)multiple possible networks|image \S+ (could not be found|is unacceptable)|flavor'?s disk is too small|disk is too small|unable to allocate auto|not reachable from subnet`)
)

// kindOf maps a response to an error kind of package drivers; nil stands for a transient error.
func kindOf(status int, message string, after time.Duration) error {
	switch {
	case status == http.StatusTooManyRequests:
		return drivers.ErrThrottled
	case status == http.StatusForbidden || status == http.StatusConflict || status == http.StatusRequestEntityTooLarge || status == http.StatusBadRequest:
		return refusal(status, message, after)
	case status == http.StatusRequestTimeout || status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		return drivers.ErrUnavailable
	case status >= 400 && status < 500:
		return drivers.ErrRejected
	default: // the service responds but fails
		return nil
	}
}

func refusal(status int, message string, after time.Duration) error {
	switch {
	case quotaText().MatchString(message) && status != http.StatusBadRequest:
		return drivers.ErrQuota
	case capacityText().MatchString(message):
		return drivers.ErrCapacity
	case rejectedText().MatchString(message):
		return drivers.ErrRejected
	case status == http.StatusConflict:
		return nil
	case status == http.StatusRequestEntityTooLarge && after > 0:
		return drivers.ErrThrottled
	default:
		return drivers.ErrRejected
	}
}

// faultKind classifies the fault of a server with status ERROR.
func faultKind(message string) resources.FaultKind {
	low := strings.ToLower(message)
	switch {
	case strings.Contains(low, "quota") && strings.Contains(low, "exce"), strings.Contains(low, "number of ports exceeded"):
		return resources.FaultQuota
	case capacityText().MatchString(message):
		return resources.FaultCapacity
	case rejectedText().MatchString(message):
		return resources.FaultRejected
	default:
		return ""
	}
}

var htmlTags = drivers.Pattern(`<[^>]*>`)

// messageOf extracts the message of a service. Nova and Cinder respond with {"badRequest": {"message": …}}, Neutron
// with {"NeutronError": {"message": …}}, Keystone with {"error": {"message": …}}, Glance with HTML or text.
func messageOf(body []byte) string {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil {
		return cloudkit.Clean(htmlTags().ReplaceAllString(string(body), " "))
	}
	for name, value := range answer {
		var inner struct {
			Message string `json:"message"`
		}
		var text string
		switch {
		case json.Unmarshal(value, &inner) == nil && inner.Message != "":
			return cloudkit.Clean(inner.Message)
		case (name == "message" || name == "NeutronError") && json.Unmarshal(value, &text) == nil:
			return cloudkit.Clean(text)
		}
	}
	return ""
}

// maxFaultLookups limits the extra calls of one List after a mass failure; the next List continues.
const maxFaultLookups = 50

// addFaults reads the faults that Nova omits from lists: those of servers that never got a host, which are in a
// separate database (cell0). It reads each fault once, and only those of servers with ownership tags.
func (c *Cloud) addFaults(ctx context.Context, servers []server) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	lookups := 0
	for i := range servers {
		s := &servers[i]
		if s.Status != "ERROR" || s.Fault != nil || ownerOf(s.Metadata).Installation == "" {
			continue
		}
		if s.Fault = c.attached.fault(s.ID); s.Fault != nil || lookups == maxFaultLookups {
			continue
		}
		lookups++
		group.Go(func() error {
			// The server counts as failed even without the reason.
			if alone, found, err := c.server(ctx, s.ID); err == nil && found && alone.Fault != nil {
				s.Fault = alone.Fault
				c.attached.setFault(s.ID, alone.Fault)
			}
			return nil
		})
	}
	_ = group.Wait()
}

func (a *attached) fault(id string) *fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.faults[id]
}

func (a *attached) setFault(id string, f *fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.faults == nil {
		a.faults = map[string]*fault{}
	}
	a.faults[id] = f
}
