package emulator

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// faultDecision is the list of faults that apply to a call.
type faultDecision []Fault

// decideFault determines the faults that apply to the call and passes those on that the handler must apply itself.
func (c *call) decideFault() (faultDecision, error) {
	rules, err := c.cloud.faults.rules()
	if err != nil {
		return nil, err
	}
	var met faultDecision
	for _, r := range rules {
		if !r.matches(c) {
			continue
		}
		fires, err := c.cloud.store.countHit(c.now, r, c.cloud.faults.seed)
		if err != nil {
			return nil, err
		}
		if fires {
			met = append(met, r.Fault)
			c.cloud.options.Log.Debug("emulator fault", "operation", c.route.operation, "action", r.Action)
		}
	}
	c.faults = met
	return met, nil
}

func (r rule) matches(c *call) bool {
	return r.operation.match(c.route.operation) && r.method.match(c.request.Method) &&
		r.path.match(c.request.URL.Path) && (r.Name == "" || r.name.match(c.subject()))
}

// countHit counts a matching call and reports whether it must fail.
func (s *store) countHit(now time.Time, r rule, seed uint64) (fires bool, err error) {
	if r.always() {
		return true, nil
	}
	err = s.update(now, func(w *cloudState) error {
		h := w.FaultHits[r.key]
		fires = r.fires(&h, seed)
		w.FaultHits[r.key] = h
		return nil
	})
	return fires, err
}

// subject returns the name of the call's object: from the body if it creates one, else that of the existing object.
func (c *call) subject() string {
	if id := c.request.PathValue("id"); id != "" {
		name := ""
		_ = c.view(func(w *cloudState) error { // without state the name is unknown
			name = w.nameOf(id, c.now)
			return nil
		})
		return name
	}
	var flat struct{ Name string }
	if json.Unmarshal(c.body, &flat) == nil && flat.Name != "" {
		return flat.Name // glance does not wrap its objects
	}
	var wrapped map[string]struct{ Name, Description string }
	if json.Unmarshal(c.body, &wrapped) != nil {
		return ""
	}
	for _, object := range wrapped {
		if object.Name != "" {
			return object.Name
		}
		return object.Description // of a floating IP
	}
	return ""
}

func (w *cloudState) nameOf(id string, now time.Time) string {
	if s, ok := w.Servers.get(id, now); ok {
		return s.Name
	}
	if i, ok := w.Images.get(id, now); ok {
		return i.Name
	}
	if p, ok := w.Ports.get(id, now); ok {
		return p.Name
	}
	if v, ok := w.Volumes.get(id, now); ok {
		return v.Name
	}
	if f, ok := w.FloatingIPs.get(id, now); ok {
		return f.Description
	}
	return ""
}

// before applies the faults that precede the operation.
func (v faultDecision) before(c *call) error {
	for _, f := range v {
		switch f.Action {
		case Slow:
			if !c.sleep(f.Delay) {
				panic(http.ErrAbortHandler)
			}
		case Answer:
			return f.refusal()
		case OverQuota:
			return c.route.overQuota()
		case LostBefore:
			panic(http.ErrAbortHandler)
		case HangBefore:
			c.hang()
		}
	}
	return nil
}

// after sends the response, unless a fault prevents it.
func (v faultDecision) after(c *call, a *answer) error {
	for _, f := range v {
		switch f.Action {
		case LostAfter, LateEffect:
			panic(http.ErrAbortHandler)
		case HangAfter:
			c.hang()
		case Truncate:
			if a.stream == nil { // otherwise the writer of the stream cuts it
				c.response().sendHalf(a)
			}
		}
	}
	c.response().send(a)
	return nil
}

// sleep reports whether the client is still connected afterwards.
func (c *call) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.request.Context().Done():
	case <-c.cloud.closing.Done():
	}
	return false
}

// hang waits until the client gives up.
func (c *call) hang() {
	select {
	case <-c.request.Context().Done():
	case <-c.cloud.closing.Done():
	}
	panic(http.ErrAbortHandler)
}

// overQuota returns the service's quota error.
func (r *route) overQuota() error {
	what, _, _ := strings.Cut(r.operation, ".")
	switch r.service {
	case neutron:
		return refuseNeutron(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['%s'].", strings.ReplaceAll(what, "floating_ip", "floatingip"))
	case cinder:
		return refuse(http.StatusRequestEntityTooLarge, "VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for quota 'volumes'.")
	case imaging:
		return refuse(http.StatusRequestEntityTooLarge, "The request was over quota: image_count_total")
	default:
		return refuse(http.StatusForbidden, "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances")
	}
}
