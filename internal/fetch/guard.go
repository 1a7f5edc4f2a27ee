package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// ForbiddenAddressError is the error for a server at an address that Guard rejects.
type ForbiddenAddressError struct {
	Host string
	What string // such as "the host itself"
}

func (e *ForbiddenAddressError) Error() string { return fmt.Sprintf("%s is %s", e.Host, e.What) }

// Guard returns a transport like inner that does not connect to this host, to link-local addresses or to the metadata
// service of a cloud, regardless of name or redirect: a user can choose the address, and must not reach them. Private
// networks are permitted.
func Guard(inner *http.Transport) *Guarded {
	direct, proxied := inner.Clone(), inner
	direct.Proxy = nil
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout, ControlContext: refuseLocal}
	direct.DialContext = dialer.DialContext
	return &Guarded{direct: direct, proxied: proxied}
}

// Guarded is the transport that Guard returns.
type Guarded struct{ direct, proxied *http.Transport }

// RoundTrip implements http.RoundTripper. A proxy resolves names itself, so that only literal addresses can be
// checked here.
func (g *Guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	var proxy *url.URL
	if g.proxied.Proxy != nil {
		var err error
		if proxy, err = g.proxied.Proxy(r); err != nil {
			return nil, err
		}
	}
	if proxy == nil {
		return g.direct.RoundTrip(r)
	}
	host := strings.TrimSuffix(strings.ToLower(r.URL.Hostname()), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return nil, &ForbiddenAddressError{host, thisHost}
	}
	if address, err := netip.ParseAddr(host); err == nil && forbiddenReason(address) != "" {
		return nil, &ForbiddenAddressError{host, forbiddenReason(address)}
	}
	return g.proxied.RoundTrip(r)
}

// CloseIdleConnections is called by http.Client.
func (g *Guarded) CloseIdleConnections() {
	g.direct.CloseIdleConnections()
	g.proxied.CloseIdleConnections()
}

// refuseLocal is called with each resolved address immediately before the connection.
func refuseLocal(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if what := forbiddenReason(to.Addr()); what != "" {
		return &ForbiddenAddressError{to.Addr().String(), what}
	}
	return nil
}

const thisHost = "an address of this host"

// metadata are the addresses of cloud metadata services that are not link-local: AWS, Azure, Google, Alibaba.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"),
}

// wrapped are the prefixes of IPv6 addresses that embed an IPv4 address and route to it.
var wrapped = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("::/96")}

// forbiddenReason says why an address is refused; "" when it is not.
func forbiddenReason(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.IsLoopback() || address.IsUnspecified() || address.Is4() && address.As4()[0] == 0 {
		return thisHost
	}
	for _, prefix := range wrapped {
		if prefix.Contains(address) {
			inner := address.As16()
			return forbiddenReason(netip.AddrFrom4([4]byte(inner[12:])))
		}
	}
	for _, service := range metadata {
		if address == service {
			return "the metadata service of a cloud"
		}
	}
	switch {
	case address.IsLinkLocalUnicast():
		return "a link-local address, where metadata services are"
	case address.IsMulticast() || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "an address of several hosts"
	}
	return ""
}
