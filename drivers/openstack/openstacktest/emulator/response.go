package emulator

import (
	"net/http"
	"strconv"
)

// response writes the answer of a call in the format of the service.
type response struct {
	writer        http.ResponseWriter
	service       service
	method        string // of the request
	isVersionList bool
	requestID     string
	version       string // microversion of compute and block storage
}

func (c *call) response() response {
	r := response{
		writer: c.writer, service: c.route.service, method: c.request.Method, isVersionList: c.route.operation == "version.list",
		requestID: c.requestID,
	}
	switch r.service {
	case compute:
		r.version = c.micro.String()
	case cinder:
		r.version = volumeVersion(c.request.Header)
	}
	return r
}

// send writes the response.
func (r response) send(a *answer) {
	body, err := a.encode()
	if err != nil {
		panic("emulator: answer cannot be written as JSON: " + err.Error())
	}
	r.head(a)
	if a.stream != nil {
		a.stream(r.writer)
		return
	}
	if len(body) > 0 {
		r.writer.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	r.writer.WriteHeader(a.status)
	if r.method != http.MethodHead {
		_, _ = r.writer.Write(body) // an error means that the client has disconnected
	}
}

// head sets the headers of all responses of the service.
func (r response) head(a *answer) {
	h := r.writer.Header()
	if kind := r.contentType(a); kind != "" {
		h.Set("Content-Type", kind)
	}
	// The version lists, and glance's 401, bypass the middleware that adds the other headers.
	bare := r.isVersionList && r.service != identity ||
		r.service == imaging && a.status == http.StatusUnauthorized
	if !bare {
		h.Set("X-Openstack-Request-Id", r.requestID)
		r.versionHead(h, a.status)
	}
	for name, values := range a.header {
		h[name] = values
	}
}

// contentType returns the content type, which the services set even without a body.
func (r response) contentType(a *answer) string {
	switch {
	case a.body != nil || a.text != nil || r.service == compute:
		return "application/json"
	case r.service == cinder || r.service == imaging && r.method != http.MethodGet:
		return "text/html; charset=UTF-8"
	}
	return ""
}

// versionHead sets the microversion headers, unless authentication failed before the request reached the service.
func (r response) versionHead(h http.Header, status int) {
	if status == http.StatusUnauthorized {
		return
	}
	switch r.service {
	case identity:
		h.Set("Vary", "X-Auth-Token")
	case compute:
		h.Set("X-Compute-Request-Id", r.requestID)
		h.Set("OpenStack-API-Version", "compute "+r.version)
		h.Set("X-OpenStack-Nova-API-Version", r.version)
		h.Set("Vary", "OpenStack-API-Version, X-OpenStack-Nova-API-Version")
	case cinder:
		h.Set("X-Compute-Request-Id", r.requestID)
		h.Set("OpenStack-API-Version", "volume "+r.version)
		h.Set("Vary", "OpenStack-API-Version")
	}
}

// sendHalf announces the whole response and cuts it in the middle.
func (r response) sendHalf(a *answer) {
	text, err := a.encode()
	if err == nil && len(text) > 1 {
		r.head(a)
		r.writer.Header().Set("Content-Length", strconv.Itoa(len(text)))
		r.writer.WriteHeader(a.status)
		_, _ = r.writer.Write(text[:len(text)/2])
		_ = http.NewResponseController(r.writer).Flush() // in-process there is nothing to flush
	}
	panic(http.ErrAbortHandler)
}
