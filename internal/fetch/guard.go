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

// PlaceError is a server at an address that Guard refuses.
type PlaceError struct {
	Host string
	What string // such as "the host itself"
}

func (e *PlaceError) Error() string { return fmt.Sprintf("%s is %s", e.Host, e.What) }

// Guard returns a transport like inner that connects neither to this host itself nor to its link nor to the metadata
// service of a cloud, whatever name or redirect leads there: what answers there is not meant for those who choose the
// address. Networks with private addresses are allowed.
func Guard(inner *http.Transport) *Guarded {
	direct, proxied := inner.Clone(), inner
	direct.Proxy = nil
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout, ControlContext: refuseLocal}
	direct.DialContext = dialer.DialContext
	return &Guarded{direct: direct, proxied: proxied}
}

// Guarded is what Guard returns.
type Guarded struct{ direct, proxied *http.Transport }

// RoundTrip implements http.RoundTripper. A proxy looks names up itself, so that only addresses can be checked here.
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
		return nil, &PlaceError{host, thisHost}
	}
	if address, err := netip.ParseAddr(host); err == nil && placeOf(address) != "" {
		return nil, &PlaceError{host, placeOf(address)}
	}
	return g.proxied.RoundTrip(r)
}

// CloseIdleConnections is called by http.Client.
func (g *Guarded) CloseIdleConnections() {
	g.direct.CloseIdleConnections()
	g.proxied.CloseIdleConnections()
}

// refuseLocal is called with each address right before it is connected to, after names were looked up.
func refuseLocal(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if what := placeOf(to.Addr()); what != "" {
		return &PlaceError{to.Addr().String(), what}
	}
	return nil
}

const thisHost = "an address of this host"

// metadata are the addresses of cloud metadata services that are not link-local: AWS, Azure, Google, Alibaba.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"),
}

// wrapped are the prefixes of IPv6 addresses that end in an IPv4 address to which they lead.
var wrapped = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("::/96")}

// placeOf says why an address is refused; "" when it is not.
func placeOf(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.IsLoopback() || address.IsUnspecified() || address.Is4() && address.As4()[0] == 0 {
		return thisHost
	}
	for _, prefix := range wrapped {
		if prefix.Contains(address) {
			inner := address.As16()
			return placeOf(netip.AddrFrom4([4]byte(inner[12:])))
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
