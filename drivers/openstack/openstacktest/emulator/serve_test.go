package emulator

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/npctl/npctl/internal/testutil"
)

// TestServedCloudIsReachedByItsCloudsYAML uses a real socket, on which a lost response is a broken connection.
func TestServedCloudIsReachedByItsCloudsYAML(t *testing.T) {
	cloud := open(t, Options{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, cloud) }()

	auth, _, tlsConfig, err := clouds.Parse(clouds.WithCloudsYAML(strings.NewReader(CloudsYAML(map[string]string{Entry: AuthURL(listener.Addr())}))), clouds.WithCloudName("emulator"))
	testutil.Must(t, err)
	if _, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tlsConfig)); err != nil {
		t.Fatal(err)
	}
	c, err := tryLogin(t.Context(), &http.Transport{DisableKeepAlives: true}, AuthURL(listener.Addr()), User, Password)
	testutil.Must(t, err)
	c.cloud = cloud
	image := c.uploaded(t, "tiny", []byte(strings.Repeat("x", 1<<20))).ID
	c.faults(t, Fault{Operation: "server.create", Action: LostAfter, Times: 1})
	if _, err := c.asked(t, image, "lost"); err == nil {
		t.Error("the answer came")
	}
	if got := c.listed(t); len(got) != 1 {
		t.Errorf("servers %v", got)
	}
	c.faults(t, Fault{Operation: "server.list", Action: HangBefore})
	hung := make(chan error, 1)
	go func() {
		_, err := c.compute.Get(context.WithoutCancel(ctx), c.compute.ServiceURL("servers"), nil, nil)
		hung <- err
	}()
	for cloud.Calls()["server.list"] < 2 { // until the call hangs
		<-contextTick(t)
	}
	stop()
	if err := cloud.Close(); err != nil {
		t.Error(err)
	}
	if err := <-hung; err == nil {
		t.Error("the hanging call was answered")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// contextTick yields, so that a loop that waits for another goroutine does not starve it.
func contextTick(t *testing.T) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	go close(done)
	return done
}

func TestServeRejectsNonLoopbackAddresses(t *testing.T) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	testutil.Must(t, err)
	defer listener.Close()
	if err := Serve(t.Context(), listener, open(t, Options{})); err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v, want a refusal that says what is allowed", err)
	}
}
