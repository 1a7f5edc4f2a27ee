package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
)

func TestEventsAreWaitedFor(t *testing.T) {
	l := newLab(t, fleet, nil)
	before, err := l.Events(t.Context(), "", "", 0)
	testutil.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
	testutil.Must(t, err)
	var codes []string
	err = l.Follow(ctx, before.Next, "request/"+r.ID, func(e wire.Event) error {
		if codes = append(codes, e.Code); e.Code == "serve-done" {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || codes[0] != "created" {
		t.Errorf("events %v, %v", codes, err)
	}
}

var errEnough = errors.New("enough")

func TestCursorSurvivesRestart(t *testing.T) {
	l := newLab(t, fleet+"\nprovider \"lab\" \"idle\" {}\n", nil) // no other events concern that provider
	if _, err := l.FreezeProvider(t.Context(), "idle"); err != nil {
		t.Fatal(err)
	}
	seen, err := l.Events(t.Context(), "", "provider/idle", 0)
	if err != nil || len(seen.Events) == 0 {
		t.Fatalf("events %+v: %v", seen, err)
	}
	if _, err := l.ThawProvider(t.Context(), "idle"); err != nil {
		t.Fatal(err)
	}
	number, rest, _ := strings.Cut(seen.Next, "-")
	_, at, _ := strings.Cut(rest, "-")
	for name, after := range map[string]string{"as told": seen.Next, "of a daemon before": "7-abcdefabcdef-" + at, "a number": number} {
		got, err := l.Events(t.Context(), after, "provider/idle", 0)
		if err != nil || len(got.Events) != 1 || got.Events[0].Code != "thawed" {
			t.Errorf("%s (%s): %+v, %v", name, after, got.Events, err)
		}
	}
	all, err := l.Events(t.Context(), "0", "provider/idle", 1)
	if err != nil || len(all.Events) != 1 || all.Events[0].Code != "frozen" {
		t.Errorf("the oldest event is %+v: %v", all, err)
	}
	if newest, err := l.Events(t.Context(), "", "provider/idle", 1); err != nil || len(newest.Events) != 1 || newest.Events[0].Code != "thawed" {
		t.Errorf("the newest event is %+v: %v", newest, err)
	}
}

func TestEventsAreStreamed(t *testing.T) {
	l := newLab(t, fleet, nil)
	l.taken(0, "metal", "metal") // so that no further events occur
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.socket)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://npctl/v1/events?subject=provider/rack", http.NoBody)
	testutil.Must(t, err)
	request.Header.Set("Accept", "text/event-stream")
	response, err := transport.RoundTrip(request)
	testutil.Must(t, err)
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("Content-Type %q", got)
	}
	if _, err := l.FreezeProvider(t.Context(), "rack"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(response.Body)
	var got []string
	for len(got) < 3 && lines.Scan() {
		got = append(got, lines.Text())
	}
	if len(got) != 3 || !strings.HasPrefix(got[0], "id: ") || got[1] != "event: frozen" || !strings.HasPrefix(got[2], "data: {") {
		t.Errorf("the stream says %q", got)
	}
	var e wire.Event
	unmarshal(t, strings.TrimPrefix(got[2], "data: "), &e)
	after, err := l.Events(t.Context(), strings.TrimPrefix(got[0], "id: "), "provider/rack", 0)
	if err != nil || len(after.Events) != 0 || e.Subject != "provider/rack" {
		t.Errorf("after %s come %+v, %v", got[0], after, err)
	}
}

// TestLongPollsEndWithTheDaemon checks that long polls do not delay the daemon's shutdown: they are answered at once.
func TestLongPollsEndWithTheDaemon(t *testing.T) {
	l := newLab(t, fleet, nil)
	l.taken(0, "metal", "metal")
	r, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
	testutil.Must(t, err)
	for range 10 {
		line, err := l.toldAtTheEnd(t, "/v1/requests/"+r.ID+"?wait=60s")
		if err == nil && line == "HTTP/1.1 200 OK" {
			return
		}
		t.Logf("who waits is told %q, %v", line, err) // net/http closes the connection if it has not read the request yet
	}
	t.Error("who waits is never answered")
}

// toldAtTheEnd returns the status line of a long poll when the server shuts down. The server closes an unanswered
// connection after a few seconds.
func (l *lab) toldAtTheEnd(t *testing.T, path string) (string, error) {
	t.Helper()
	other := *l
	other.socket = testutil.ShortDir(t) + "/sock"
	end := other.listen()
	conn := other.dial()
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: npctl\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for range 3 { // until then the long poll has started
		if got := other.say("GET /v1/status HTTP/1.1\r\nHost: npctl\r\nConnection: close\r\n\r\n"); got != "HTTP/1.1 200 OK" {
			t.Errorf("status: %q", got)
		}
	}
	end()
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}
