package httpapi

import (
	"net/http"
	"net/http/pprof"
	"time"
)

// debugPath is the prefix of the profiles, which exist only on the unix socket.
const debugPath = "/debug/pprof"

// profileTime limits a profile; net/http/pprof collects for 30 s by default.
const profileTime = 5 * time.Minute

// addDebug adds the profiles of the Go runtime: cpu (called profile), trace, goroutine, heap and the others.
func (s *Server) addDebug() {
	s.mux.HandleFunc("GET "+debugPath+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		if !c.local {
			c.fail(errUnknownPath())
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // net/http would cancel a long profile at it
		c.allowAnswer(profileTime)
		switch name := r.PathValue("name"); name {
		case "profile":
			pprof.Profile(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			pprof.Handler(name).ServeHTTP(w, r)
		}
	})
}
