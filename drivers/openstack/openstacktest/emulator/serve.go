package emulator

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/npctl/npctl/internal/connlimit"
)

// shutdownGrace is the time that active calls have to end at shutdown.
const shutdownGrace = 3 * time.Second

// Serve serves the cloud on the listener until ctx ends. It accepts only loopback addresses, since the password is
// public.
func Serve(ctx context.Context, listener net.Listener, cloud *Cloud) error {
	address, isTCP := listener.Addr().(*net.TCPAddr)
	if !isTCP || !address.IP.IsLoopback() {
		return fmt.Errorf("serve emulator on %s: only a loopback address such as 127.0.0.1 is allowed", listener.Addr())
	}
	server := &http.Server{
		Handler: cloud.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	if err := connlimit.Serve(ctx, server, listener, shutdownGrace); err != nil { // it also ends calls that hang because of a fault
		return fmt.Errorf("serve emulator: %w", err)
	}
	return nil
}

// AuthURL returns the identity URL of a cloud served on that address.
func AuthURL(address net.Addr) string { return "http://" + address.String() + "/identity/v3" }

// Entry is the usual name of a cloud in clouds.yaml.
const Entry = "emulator"

// CloudsYAML returns a clouds.yaml for any OpenStack client. Each cloud has two entries: its name, for npctl's user, and
// its name with "-other", for the other user. urls are the identity URLs by name.
func CloudsYAML(urls map[string]string) string {
	text := "clouds:\n"
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		for _, entry := range []struct{ name, user string }{{name, User}, {name + "-other", Other}} {
			text += fmt.Sprintf(`  %s:
    auth:
      auth_url: %s
      username: %s
      password: %s
      project_name: %s
      user_domain_name: %s
      project_domain_name: %s
    region_name: %s
    identity_api_version: 3
`, entry.name, urls[name], entry.user, Password, entry.user, Domain, Domain, Region)
		}
	}
	return text
}
