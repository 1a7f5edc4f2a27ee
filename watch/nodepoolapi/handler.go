// Package nodepoolapi serves the web endpoints of nodepool-launcher, for dashboards and scripts that read them.
//
// Rules, as in Nodepool:
//   - The endpoints only read, and have no authentication. The operator enables them with an address of their own.
//   - A client that prefers application/json gets JSON, any other client a text table. The parameter fields selects
//     columns of the table and does not affect JSON.
//   - Responses may be cached for one second, and every web page may read them.
package nodepoolapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/watch"
)

const (
	callsAtOnce = 4
	cacheTime   = time.Second
)

// New returns the handler of the endpoints.
func New(d *watch.Daemon) http.Handler {
	e := endpoints{d, make(chan struct{}, callsAtOnce)}
	mux := http.NewServeMux()
	for name, read := range map[string]func(*inspect.Fleet, *http.Request, time.Time) table{
		"/node-list": func(w *inspect.Fleet, r *http.Request, now time.Time) table {
			return nodeList(w, r.FormValue("node_id"), now)
		},
		"/request-list":   func(w *inspect.Fleet, _ *http.Request, _ time.Time) table { return requestList(w) },
		"/label-list":     func(w *inspect.Fleet, _ *http.Request, _ time.Time) table { return labelList(w) },
		"/image-list":     func(w *inspect.Fleet, _ *http.Request, _ time.Time) table { return imageList(w) },
		"/image-status":   func(w *inspect.Fleet, _ *http.Request, _ time.Time) table { return imageStatus(w) },
		"/dib-image-list": func(w *inspect.Fleet, _ *http.Request, _ time.Time) table { return dibImageList(w) },
	} {
		mux.HandleFunc("GET "+name, func(w http.ResponseWriter, r *http.Request) { e.serve(w, r, read) })
	}
	mux.HandleFunc("GET /ready", e.ready)
	return mux
}

type endpoints struct {
	daemon *watch.Daemon
	calls  chan struct{}
}

func (e endpoints) ready(w http.ResponseWriter, r *http.Request) {
	if why := e.daemon.NotReady(); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	write(w, r, []byte("OK"), time.Now())
}

func (e endpoints) serve(w http.ResponseWriter, r *http.Request, read func(*inspect.Fleet, *http.Request, time.Time) table) {
	select {
	case e.calls <- struct{}{}:
		defer func() { <-e.calls }()
	case <-r.Context().Done():
		return
	}
	now := time.Now()
	content := read(e.fleet(), r, now)
	var body []byte
	if wantsJSON(r.Header.Values("Accept")) {
		doc, err := json.Marshal(content.objects())
		if err != nil {
			http.Error(w, "encode response", http.StatusInternalServerError)
			return
		}
		body = text.JSON(doc)
	} else {
		var fields []string
		if given := r.FormValue("fields"); given != "" {
			fields = strings.Split(given, ",")
		}
		body = []byte(content.text(fields, now))
	}
	write(w, r, body, now)
}

// fleet returns the current records, and the claims, pools and build requests of a shared store.
func (e endpoints) fleet() *inspect.Fleet {
	w := inspect.Fleet{Desired: e.daemon.Desired(), Observed: plan.Observed{}}
	w.Observed.Records, w.Observed.Busy = e.daemon.Runner().Records()
	if s := e.daemon.Runner().Shared(); s != nil {
		w.Observed.Shared, w.Observed.RegisteredPools, w.Observed.ForeignClaims = true, s.RegisteredPools(), s.Claimed()
		w.Observed.RequestedBuilds = s.RequestedBuilds()
	}
	return &w
}

// write writes a response with the headers of Nodepool. It responds to conditional calls and to HEAD.
func write(w http.ResponseWriter, r *http.Request, body []byte, now time.Time) {
	kind := "text/plain; charset=UTF-8"
	if wantsJSON(r.Header.Values("Accept")) {
		kind = "application/json"
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(cacheTime/time.Second)))
	h.Set("Expires", now.Add(cacheTime).UTC().Format(http.TimeFormat))
	h.Add("Vary", "Accept")
	http.ServeContent(w, r, "", now, strings.NewReader(string(body)))
}

// wantsJSON reports whether a client prefers application/json to text/html and text/plain. Text wins a tie.
func wantsJSON(accept []string) bool {
	quality := func(kind string) (q float64) {
		major, _, _ := strings.Cut(kind, "/")
		exact := -1
		for _, part := range strings.Split(strings.Join(accept, ","), ",") {
			params := strings.Split(part, ";")
			at := slices.Index([]string{"*/*", major + "/*", kind}, strings.ToLower(strings.TrimSpace(params[0])))
			if at <= exact {
				continue
			}
			exact, q = at, 1
			for _, p := range params[1:] {
				if value, given := strings.CutPrefix(strings.TrimSpace(p), "q="); given {
					q, _ = strconv.ParseFloat(value, 64) // 0 if malformed
				}
			}
		}
		return q
	}
	return quality("application/json") > max(quality("text/html"), quality("text/plain"))
}
