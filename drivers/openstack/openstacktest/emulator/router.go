package emulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/google/uuid"
)

// route is one operation of one API.
type route struct {
	service   service
	method    string
	path      string // below the service's root, with wildcards as in http.ServeMux
	operation string // such as server.create; the key of faults and counts
	open      bool   // needs no token
	stream    bool   // its handler reads the body itself
	handle    func(*call) (*answer, error)
}

// roots are the paths of the APIs, as in a devstack.
var roots = map[service]string{
	identity: "/identity", imaging: "/image", compute: "/compute", neutron: "/networking", cinder: "/volume",
}

type router struct {
	cloud *Cloud
	mux   *http.ServeMux
}

func newRouter(cloud *Cloud) http.Handler {
	r := &router{cloud: cloud, mux: http.NewServeMux()}
	for _, routes := range [][]route{
		discoveryRoutes(), identityRoutes(), imageRoutes(), computeRoutes(), networkRoutes(), volumeRoutes(),
	} {
		for i := range routes {
			one := &routes[i]
			r.mux.Handle(one.method+" "+roots[one.service]+one.path, r.serve(one))
		}
	}
	return r
}

// ServeHTTP cleans the path, since the real services ignore extra slashes, and finds the route.
func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	req = req.Clone(req.Context())
	req.URL.Path = path.Clean("/" + req.URL.Path)
	req.URL.RawPath = ""
	if _, pattern := r.mux.Handler(req); pattern == "" {
		r.notFound(w, req)
		return
	}
	r.mux.ServeHTTP(w, req)
}

func (r *router) notFound(w http.ResponseWriter, req *http.Request) {
	r.cloud.count("unknown")
	for s, root := range roots {
		if !strings.HasPrefix(req.URL.Path, root+"/") {
			continue
		}
		c := &call{cloud: r.cloud, request: req, writer: w, route: &route{service: s}}
		c.fail(refuse(http.StatusNotFound, "The resource could not be found."))
		return
	}
	http.NotFound(w, req)
}

// serve returns the handler of one route: count, token, faults, the operation, response.
func (r *router) serve(one *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c := &call{
			cloud: r.cloud, request: req, writer: w, route: one, query: query{req.URL.Query(), one.service}, scope: scope{now: r.cloud.now()},
			requestID: "req-" + uuid.NewString(),
		}
		if err := c.serve(); err != nil {
			c.fail(err)
		}
	})
}

func (c *call) serve() error {
	err := c.readBody()
	c.route = c.route.refined(c.body)
	c.cloud.count(c.route.operation)
	if err != nil {
		return err
	}
	verdict, err := c.decideFault()
	if err != nil {
		return err
	}
	if err := verdict.before(c); err != nil {
		return err
	}
	if err := c.authenticate(); err != nil {
		return err
	}
	if err := c.negotiate(); err != nil {
		return err
	}
	c.now = c.cloud.now() // a fault may have delayed the call
	a, err := c.route.handle(c)
	if err != nil {
		return err
	}
	return verdict.after(c, a)
}

// refined returns the route of the operation that the body selects, if that has its own route.
func (r *route) refined(body []byte) *route {
	if r.operation == serverActions && bytes.Contains(body, []byte(`"createImage"`)) {
		one := *r
		one.operation = serverSnapshots
		return &one
	}
	return r
}

func (c *call) readBody() error {
	if c.route.stream {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.writer, c.request.Body, maxBody))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return refuse(http.StatusRequestEntityTooLarge, "Request is too large.")
	}
	if err != nil {
		return badRequest("Malformed request body")
	}
	c.body = body
	return nil
}

// fail responds with an error in the format of the service. An error other than an apiError is internal, such as a
// full disk.
func (c *call) fail(err error) {
	var told *apiError
	if !errors.As(err, &told) {
		if errors.Is(err, context.Canceled) {
			panic(http.ErrAbortHandler) // the client has disconnected
		}
		c.cloud.options.Log.Error("emulator call", "operation", c.route.operation, "error", err)
		told = &apiError{status: http.StatusInternalServerError, message: fmt.Sprintf("internal error of the emulator: %v", err)}
	}
	if told.status == http.StatusUnauthorized {
		c.writer.Header().Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", c.base()+roots[identity]))
	}
	c.response().send(errorAnswer(c.route.service, told, c.request.Header.Get("Accept")))
}
