package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

func TestForbiddenAddresses(t *testing.T) {
	for _, refused := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "::1", "::", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1%eth0", "::ffff:169.254.169.254",
		"fd00:ec2::254", "168.63.129.16", "100.100.100.200", "224.0.0.1", "ff02::1", "255.255.255.255", "64:ff9b::7f00:1", "::7f00:1",
	} {
		if forbiddenReason(netip.MustParseAddr(refused)) == "" {
			t.Errorf("%s is allowed", refused)
		}
	}
	for _, allowed := range []string{"10.0.0.1", "192.168.1.1", "172.16.0.1", "93.184.216.34", "fd12::1", "2001:db8::1", "64:ff9b::5db8:d822"} {
		if what := forbiddenReason(netip.MustParseAddr(allowed)); what != "" {
			t.Errorf("%s is %s", allowed, what)
		}
	}
}

func TestGuardRejectsForbiddenAddresses(t *testing.T) {
	s := serve(t, content())
	address, err := url.Parse(s.URL)
	testutil.Must(t, err)
	client := quick()
	client.HTTP = NewClient(Guard(NewTransport(nil)))
	for _, host := range []string{"127.0.0.1", "127.8.9.10", "0.0.0.0"} {
		r := s.request(t, "/image.raw")
		r.URL.Host = net.JoinHostPort(host, address.Port())
		var place *ForbiddenAddressError
		if _, err := client.Download(t.Context(), r); !errors.As(err, &place) {
			t.Errorf("%s: error is %v", host, err)
		}
	}
	if got := s.requests(); len(got) > 0 {
		t.Errorf("the server was asked %d times", len(got))
	}
}

func TestGuardUsesProxiesOnlyForPermittedAddresses(t *testing.T) {
	var asked []string
	inner := NewTransport(nil)
	inner.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.example.com:3128") }
	inner.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
		asked = append(asked, address)
		return nil, errors.New("no proxy here")
	}
	guarded := Guard(inner)
	for _, test := range []struct {
		address string
		refused bool
	}{
		{"http://127.0.0.1/x", true}, {"http://[::1]/x", true}, {"http://localhost:80/x", true}, {"http://LOCALHOST./x", true},
		{"http://169.254.169.254/latest", true}, {"http://files.example.com/x", false}, {"http://10.0.0.1/x", false},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.address, nil)
		testutil.Must(t, err)
		response, err := guarded.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		var place *ForbiddenAddressError
		if errors.As(err, &place) != test.refused {
			t.Errorf("%s: error is %v", test.address, err)
		}
	}
	if len(asked) != 2 {
		t.Errorf("the proxy was asked %d times, want twice: %q", len(asked), asked)
	}
}
