package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/watch/httpapi/client"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

func TestEventsAreWaitedFor(t *testing.T) {
	l := newLab(t, fleet, nil)
	before, err := l.Events(t.Context(), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
	if err != nil {
		t.Fatal(err)
	}
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

func TestAPlaceInTheJournalHoldsOverARestart(t *testing.T) {
	l := newLab(t, fleet, nil)
	if _, err := l.FreezeProvider(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	seen, err := l.Events(t.Context(), "", "provider/one", 0)
	if err != nil || len(seen.Events) == 0 {
		t.Fatalf("events %+v: %v", seen, err)
	}
	if _, err := l.ThawProvider(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	number, rest, _ := strings.Cut(seen.Next, "-")
	_, at, _ := strings.Cut(rest, "-")
	for name, after := range map[string]string{"as told": seen.Next, "of a daemon before": "7-abcdefabcdef-" + at, "a number": number} {
		got, err := l.Events(t.Context(), after, "provider/one", 0)
		if err != nil || len(got.Events) != 1 || got.Events[0].Code != "thawed" {
			t.Errorf("%s (%s): %+v, %v", name, after, got.Events, err)
		}
	}
	all, err := l.Events(t.Context(), "0", "provider/one", 1)
	if err != nil || len(all.Events) != 1 || all.Events[0].Code != "frozen" {
		t.Errorf("the oldest event is %+v: %v", all, err)
	}
	if newest, err := l.Events(t.Context(), "", "provider/one", 1); err != nil || len(newest.Events) != 1 || newest.Events[0].Code != "thawed" {
		t.Errorf("the newest event is %+v: %v", newest, err)
	}
}

func TestEventsAreStreamed(t *testing.T) {
	l := newLab(t, fleet, nil)
	l.taken(0, "metal", "metal") // nothing else is to happen there
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.socket)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://npctl/v1/events?subject=provider/rack", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
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

// TestTheEndOfTheDaemonEndsWaits makes sure that nobody who waits keeps the daemon from ending.
func TestTheEndOfTheDaemonEndsWaits(t *testing.T) {
	l := newLab(t, fleet, nil)
	l.taken(0, "metal", "metal")
	r, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
	if err != nil {
		t.Fatal(err)
	}
	other := *l
	other.socket = shortDir(t) + "/sock"
	end := other.listen()
	c, err := client.New(client.Options{Socket: other.socket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waited := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	go func() {
		defer close(waited)
		_, _ = c.WaitRequest(ctx, r.ID)
	}()
	started := time.Now()
	end()
	if took := time.Since(started); took > 4*time.Second {
		t.Errorf("it took %s to end while somebody waits", took)
	}
	<-waited
}
