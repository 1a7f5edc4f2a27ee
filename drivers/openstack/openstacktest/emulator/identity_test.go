package emulator

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/npctl/npctl/internal/testutil"
)

func TestWrongPasswordAndGarbageTokenAreUnauthorized(t *testing.T) {
	c := connect(t, Options{})
	if _, err := tryLogin(t.Context(), c.cloud.Transport(), "http://emulator/identity/v3", User, "wrong"); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("wrong password: %v, want 401", err)
	}
	if _, err := tryLogin(t.Context(), c.cloud.Transport(), "http://emulator/identity/v3", "nobody", Password); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("unknown user: %v, want 401", err)
	}
	valid := c.provider.Token()
	for _, token := range []string{"", "garbage", valid + "x", valid[:len(valid)-4] + "AAAA"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.compute.ServiceURL("servers"), nil)
		testutil.Must(t, err)
		req.Header.Set("X-Auth-Token", token)
		resp, err := c.cloud.Transport().RoundTrip(req)
		testutil.Must(t, err)
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(resp.Header.Get("WWW-Authenticate"), "/identity") {
			t.Errorf("token %.12q: %s, WWW-Authenticate %q", token, resp.Status, resp.Header.Get("WWW-Authenticate"))
		}
	}
}

func TestTokenOfAnotherCloudIsRefused(t *testing.T) {
	one, two := connect(t, Options{}), connect(t, Options{})
	one.provider.SetToken(two.provider.Token())
	one.provider.ReauthFunc = nil
	if _, err := servers.List(one.compute, nil).AllPages(t.Context()); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("%v, want 401", err)
	}
}

func TestProjectsDoNotSeeEachOther(t *testing.T) {
	mine := connect(t, Options{})
	theirs := login(t, mine.cloud, Other)
	image := mine.uploaded(t, "tiny", []byte("x"))
	s, err := mine.asked(t, image.ID, "node")
	testutil.Must(t, err)
	if got := theirs.listed(t); len(got) != 0 || !theirs.gone(t, s.ID) {
		t.Errorf("the other project sees servers %v", got)
	}
	if err := servers.Delete(t.Context(), theirs.compute, s.ID).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("delete of another's server: %v, want 404", err)
	}
	if err := images.Delete(t.Context(), theirs.image, image.ID).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("delete of another's image: %v, want 404", err)
	}
	if _, err := images.Update(t.Context(), mine.image, image.ID, images.UpdateOpts{images.UpdateVisibility{Visibility: images.ImageVisibilityCommunity}}).Extract(); err != nil {
		t.Fatal(err)
	}
	if err := images.Delete(t.Context(), theirs.image, image.ID).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("delete of another's community image: %v, want 403", err)
	}
}
