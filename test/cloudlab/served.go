package cloudlab

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/sshserver"
)

// Served is a cloud that processes use over HTTP.
type Served struct {
	*emulator.Cloud
	Name string // of the cloud in clouds.yaml
	url  string
}

// Serve serves a cloud on loopback until the end of the test.
func Serve(t testing.TB, name string, o emulator.Options) *Served {
	t.Helper()
	cloud := open(t, o)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	during(t, cloud, func(ctx context.Context) error { return emulator.Serve(ctx, listener, cloud) })
	return &Served{Cloud: cloud, Name: name, url: emulator.AuthURL(listener.Addr())}
}

// ServeSSH lets the active servers respond to SSH until the end of the test, and returns the port.
func (s *Served) ServeSSH(t testing.TB) (port int) {
	t.Helper()
	listener, err := sshserver.Listen(t.Context(), 0)
	testutil.Must(t, err)
	during(t, s.Cloud, func(ctx context.Context) error { return emulator.ServeSSH(ctx, listener, s.Cloud) })
	return listener.Addr().(*net.TCPAddr).Port
}

// during runs a server of a cloud until the end of the test.
func during(t testing.TB, cloud *emulator.Cloud, serve func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		_ = cloud.Close() // ends calls that hang
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// CloudsYAML writes a clouds.yaml with the clouds and returns its path, for OS_CLIENT_CONFIG_FILE.
func CloudsYAML(t testing.TB, clouds ...*Served) (file string) {
	t.Helper()
	urls := map[string]string{}
	for _, c := range clouds {
		urls[c.Name] = c.url
	}
	file = filepath.Join(t.TempDir(), "clouds.yaml")
	testutil.WriteFile(t, file, emulator.CloudsYAML(urls))
	return file
}
