package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/npctl/npctl/internal/testutil"
)

func (c *client) listed(t testing.TB) []string {
	t.Helper()
	pages, err := servers.List(c.compute, nil).AllPages(t.Context())
	testutil.Must(t, err)
	all, err := servers.ExtractServers(pages)
	testutil.Must(t, err)
	names := []string{}
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

func (c *client) faults(t testing.TB, faults ...Fault) {
	t.Helper()
	testutil.Must(t, c.cloud.SetFaults(faults...))
}

func TestAnsweredFaultHasItsStatusAndHeaders(t *testing.T) {
	c := connect(t, Options{})
	c.faults(t, Fault{Operation: "server.list", Action: Answer, Status: 429, RetryAfter: 7 * time.Second, Message: "slow down", Times: 1})
	_, err := servers.List(c.compute, nil).AllPages(t.Context())
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) || code.Actual != 429 || code.ResponseHeader.Get("Retry-After") != "7" || !strings.Contains(string(code.Body), `"overLimit"`) {
		t.Fatalf("%v", err)
	}
	if got := c.listed(t); len(got) != 0 {
		t.Errorf("second list %v", got)
	}
}

func TestServerOfAFaultFailsWithItsText(t *testing.T) {
	c := connect(t, Options{})
	image := c.uploaded(t, "tiny", []byte("x")).ID
	c.faults(t, Fault{Operation: "server.create", Name: "bad-*", Action: ServerError, Message: "Exceeded maximum number of retries."})
	for name, want := range map[string]string{"bad-1": "ERROR", "good": "ACTIVE", "bad-2": "ERROR"} {
		s, err := c.asked(t, image, name)
		testutil.Must(t, err)
		if got := c.raw(t, s.ID); got["status"] != want {
			t.Errorf("%s is %v, want %s", name, got["status"], want)
		}
	}
}

func TestLostAnswers(t *testing.T) {
	for action, want := range map[Action][]string{LostBefore: {}, LostAfter: {"node"}} {
		c := connect(t, Options{})
		image := c.uploaded(t, "tiny", []byte("x")).ID
		c.faults(t, Fault{Operation: "server.create", Action: action, Times: 1})
		_, err := c.asked(t, image, "node")
		if !errors.Is(err, errCut) {
			t.Errorf("%s: %v, want a cut connection", action, err)
		}
		if diff := cmp.Diff(want, c.listed(t)); diff != "" {
			t.Errorf("%s: servers (-want +got):\n%s", action, diff)
		}
	}
}

func TestHangingCallEndsWithItsClient(t *testing.T) {
	for action, want := range map[Action][]string{HangBefore: {}, HangAfter: {"node"}} {
		asleep(t, func(t *testing.T) {
			c := connect(t, Options{})
			image := c.uploaded(t, "tiny", []byte("x")).ID
			c.faults(t, Fault{Operation: "server.create", Action: action, Times: 1})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			_, err := servers.Create(ctx, c.compute, servers.CreateOpts{
				Name: "node", ImageRef: image, FlavorRef: flavorID("small"), Networks: []servers.Network{{UUID: stableID("network/private")}},
			}, nil).Extract()
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
				t.Errorf("%s: %v after %s", action, err, time.Since(start))
			}
			if diff := cmp.Diff(want, c.listed(t)); diff != "" {
				t.Errorf("%s: servers (-want +got):\n%s", action, diff)
			}
		})
	}
}

func TestSlowCallIsSlow(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{})
		c.faults(t, Fault{Operation: "flavor.*", Action: Slow, Delay: 3 * time.Second})
		start := time.Now()
		if r := servers.List(c.compute, nil); r.Err != nil {
			t.Fatal(r.Err)
		}
		_, err := c.compute.Get(t.Context(), c.compute.ServiceURL("flavors"), nil, nil)
		if err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

func TestLateEffectAppearsLater(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{BuildTime: 10 * time.Second})
		image := c.uploaded(t, "tiny", []byte("x")).ID
		c.faults(t, Fault{Operation: "server.create", Action: LateEffect, Delay: time.Minute, Times: 1})
		if _, err := c.asked(t, image, "late"); err == nil {
			t.Fatal("the answer came")
		}
		if got := c.listed(t); len(got) != 0 {
			t.Errorf("at once: %v", got)
		}
		time.Sleep(time.Minute)
		if got := c.listed(t); len(got) != 1 {
			t.Errorf("later: %v", got)
		}
		if all := c.things(t, "server"); len(all) != 1 || all[0].Status != "BUILD" {
			t.Errorf("later: %+v, want one that begins to build", all)
		}
		time.Sleep(10 * time.Second)
		if all := c.things(t, "server"); all[0].Status != "ACTIVE" {
			t.Errorf("in the end: %+v", all)
		}
	})
}

func TestDeleteMayHappenLater(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{})
		s, err := c.asked(t, c.uploaded(t, "tiny", []byte("x")).ID, "node")
		testutil.Must(t, err)
		c.faults(t, Fault{Operation: "server.delete", Action: LateEffect, Delay: time.Minute, Times: 1})
		if err := servers.Delete(t.Context(), c.compute, s.ID).ExtractErr(); err == nil {
			t.Error("the answer came")
		}
		if got := c.state(t, s.ID); got != "ACTIVE " {
			t.Errorf("at once %q", got)
		}
		time.Sleep(time.Minute)
		if !c.gone(t, s.ID) {
			t.Error("the server is still there")
		}
	})
}

func TestListsMayBeBehind(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{})
		image := c.uploaded(t, "tiny", []byte("x")).ID
		c.faults(t, Fault{Operation: "server.*", Action: LateListing, Delay: 10 * time.Second})
		s, err := c.asked(t, image, "node")
		testutil.Must(t, err)
		if got := c.listed(t); len(got) != 0 || c.gone(t, s.ID) {
			t.Errorf("at once listed: %v, gone: %v", got, c.gone(t, s.ID))
		}
		time.Sleep(10 * time.Second)
		if got := c.listed(t); len(got) != 1 {
			t.Errorf("later: %v", got)
		}
		testutil.Must(t, servers.Delete(t.Context(), c.compute, s.ID).ExtractErr())
		if got := c.listed(t); len(got) != 1 || !c.gone(t, s.ID) {
			t.Errorf("after its delete listed: %v, gone: %v", got, c.gone(t, s.ID))
		}
		time.Sleep(10 * time.Second)
		if got := c.listed(t); len(got) != 0 {
			t.Errorf("in the end: %v", got)
		}
	})
}

func TestDeleteMayFailAndBeRepeated(t *testing.T) {
	c := connect(t, Options{})
	s, err := c.asked(t, c.uploaded(t, "tiny", []byte("x")).ID, "node")
	testutil.Must(t, err)
	c.faults(t, Fault{Operation: "server.delete", Name: "node", Action: DeleteFails, Times: 1})
	for _, want := range []string{"ERROR ", ""} {
		testutil.Must(t, servers.Delete(t.Context(), c.compute, s.ID).ExtractErr())
		if want == "" && !c.gone(t, s.ID) {
			t.Error("the second delete did not work")
		}
		if want != "" && c.state(t, s.ID) != want {
			t.Errorf("state %q", c.state(t, s.ID))
		}
	}
}

func TestUploadCutInTheMiddleLeavesAQueuedImage(t *testing.T) {
	c := connect(t, Options{})
	c.faults(t, Fault{Operation: "image.upload", Action: CutUpload, Times: 1})
	i, err := images.Create(t.Context(), c.image, images.CreateOpts{Name: "x", DiskFormat: "raw", ContainerFormat: "bare"}).Extract()
	testutil.Must(t, err)
	content := bytes.Repeat([]byte("x"), 1<<20)
	if err := imagedata.Upload(t.Context(), c.image, i.ID, bytes.NewReader(content)).ExtractErr(); err == nil {
		t.Fatal("the upload worked")
	}
	if i, err = images.Get(t.Context(), c.image, i.ID).Extract(); err != nil || i.Status != images.ImageStatusQueued {
		t.Fatalf("image is %v, %v", i, err)
	}
	if err := imagedata.Upload(t.Context(), c.image, i.ID, bytes.NewReader(content)).ExtractErr(); err != nil {
		t.Errorf("second upload: %v", err)
	}
}

func TestStuckImageStaysInSaving(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{})
		c.faults(t, Fault{Operation: "image.upload", Action: StuckSaving})
		i := c.uploaded(t, "x", []byte("x"))
		time.Sleep(24 * time.Hour)
		if i, err := images.Get(t.Context(), c.image, i.ID).Extract(); err != nil || i.Status != images.ImageStatusSaving {
			t.Errorf("image is %v, %v", i, err)
		}
	})
}

func TestTruncatedAnswerIsNoJSON(t *testing.T) {
	c := connect(t, Options{})
	c.faults(t, Fault{Path: "*/servers/detail", Action: Truncate, Times: 1})
	if _, err := servers.List(c.compute, nil).AllPages(t.Context()); err == nil {
		t.Error("the list could be read")
	}
}

func TestOverQuotaUsesErrorOfEachService(t *testing.T) {
	c := connect(t, Options{})
	image := c.uploaded(t, "tiny", []byte("x")).ID
	c.faults(t, Fault{Operation: "*.create", Action: OverQuota})
	_, err := c.asked(t, image, "x")
	if !gophercloud.ResponseCodeIs(err, http.StatusForbidden) || !strings.Contains(err.Error(), "Quota exceeded for instances") {
		t.Errorf("server: %v", err)
	}
	_, err = floatingips.Create(t.Context(), c.network, floatingips.CreateOpts{FloatingNetworkID: stableID("network/public")}).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusConflict) || !strings.Contains(err.Error(), "Quota exceeded for resources: ['floatingip'].") {
		t.Errorf("floating IP: %v", err)
	}
}

func TestFaultsFollowAfterEveryAndTimes(t *testing.T) {
	run := func(f Fault, calls int) string {
		f.Operation, f.Action, f.Status = "server.list", Answer, 503
		c := connect(t, Options{Seed: 7})
		c.faults(t, f)
		pattern := ""
		for range calls {
			if _, err := servers.List(c.compute, nil).AllPages(t.Context()); err != nil {
				pattern += "x"
			} else {
				pattern += "."
			}
		}
		return pattern
	}
	for _, test := range []struct {
		fault Fault
		want  string
	}{
		{Fault{}, "xxxxxxxx"},
		{Fault{After: 2}, "..xxxxxx"},
		{Fault{Every: 3}, "..x..x.."},
		{Fault{Times: 2}, "xx......"},
		{Fault{After: 1, Every: 2, Times: 2}, "..x.x..."},
	} {
		if got := run(test.fault, 8); got != test.want {
			t.Errorf("%+v: %s, want %s", test.fault, got, test.want)
		}
	}
	random := run(Fault{Probability: 0.5}, 40)
	if n := strings.Count(random, "x"); n < 10 || n > 30 {
		t.Errorf("of 40 calls with probability one half %d failed", n)
	}
	if again := run(Fault{Probability: 0.5}, 40); again != random {
		t.Errorf("the same seed gave %s and %s", random, again)
	}
}

func TestFaultCountsSurviveAProcess(t *testing.T) {
	o := Options{File: filepath.Join(t.TempDir(), "cloud.json"), Faults: []Fault{{Operation: "server.list", Action: Answer, Status: 500, Times: 1}}}
	if _, err := servers.List(connect(t, o).compute, nil).AllPages(t.Context()); err == nil {
		t.Error("the first process met no fault")
	}
	if _, err := servers.List(connect(t, o).compute, nil).AllPages(t.Context()); err != nil {
		t.Errorf("the second process: %v", err)
	}
}

func TestFaultFileIsReadWhenItChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults.json")
	c := connect(t, Options{FaultFile: file})
	list := func() error {
		_, err := servers.List(c.compute, nil).AllPages(t.Context())
		return err
	}
	write := func(text string) {
		testutil.WriteFile(t, file, text)
	}
	if err := list(); err != nil {
		t.Errorf("without the file: %v", err)
	}
	write(`[{"operation": "server.list", "action": "answer", "status": 418, "retry_after": "2s"}]`)
	if err := list(); !gophercloud.ResponseCodeIs(err, http.StatusTeapot) {
		t.Errorf("with the file: %v", err)
	}
	write(`[{"operation": "server.lst", "action": "answer"}]`)
	if err := list(); err == nil || !strings.Contains(err.Error(), "status 0") {
		t.Errorf("with a mistake in the file: %v", err)
	}
	write(`[]`)
	if err := list(); err != nil {
		t.Errorf("with an empty list: %v", err)
	}
}

func TestFaultIsTheSameAfterJSON(t *testing.T) {
	want := Fault{
		Operation: "server.create", Method: "POST", Path: "/x*", Name: "n?", After: 1, Every: 2, Times: 3, Probability: 0.25,
		Action: LateEffect, Status: 503, RetryAfter: time.Second, Message: "m", Delay: time.Minute,
	}
	text, err := json.Marshal(want)
	testutil.Must(t, err)
	var got Fault
	testutil.Must(t, json.Unmarshal(text, &got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s:\n%s", text, diff)
	}
}

func TestWrongFaultsAreRefused(t *testing.T) {
	for _, f := range []Fault{
		{Action: "explode"}, {Action: Slow}, {Action: Answer, Status: 99}, {Action: LostAfter, Times: -1},
		{Action: LostAfter, Probability: 2}, {Action: LostAfter, Operation: "server.crate"},
	} {
		if err := f.check(); err == nil {
			t.Errorf("%+v is accepted", f)
		}
		if _, err := Open(Options{Faults: []Fault{f}}); err == nil {
			t.Errorf("a cloud opens with %+v", f)
		}
	}
}
