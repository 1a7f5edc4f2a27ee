package openstack

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/resources"
)

// addressChoice selects the address of a server to connect to. It is determined at creation and stored in the
// server's metadata, since a listing has no access to the configuration.
type addressChoice struct {
	internal bool
	version  int    // 4 or 6; 0 means 4 if available
	network  string // name; empty means any
}

// text returns "" for the default choice.
func (a addressChoice) text() string {
	if a == (addressChoice{}) {
		return ""
	}
	kind := "public"
	if a.internal {
		kind = "internal"
	}
	return kind + "/" + strconv.Itoa(a.version) + "/" + a.network
}

func choiceOf(metadata map[string]string, private bool) addressChoice {
	parts := strings.SplitN(metadata[keyInterface], "/", 3)
	if len(parts) != 3 {
		return addressChoice{internal: private}
	}
	return addressChoice{internal: parts[0] == "internal", version: int(parseInt(parts[1])), network: parts[2]}
}

// pick returns the address to connect to, from the addresses on the chosen network.
func (a addressChoice) pick(from resources.Addresses) string {
	public4, public6 := from.PublicIPv4, from.PublicIPv6
	if a.internal {
		public4, public6 = "", ""
	}
	switch a.version {
	case 4:
		return cmp.Or(public4, from.PrivateIPv4)
	case 6:
		return cmp.Or(public6, from.PrivateIPv6)
	}
	if a.internal {
		return cmp.Or(from.PrivateIPv4, from.PrivateIPv6, from.PublicIPv4, from.PublicIPv6)
	}
	return cmp.Or(public4, public6, from.PrivateIPv4, from.PrivateIPv6)
}

// externalNetworks are the names of networks with public addresses.
type externalNetworks map[string]bool

// addressesOf classifies a server's addresses: floating IPs, addresses on external networks and globally routed
// addresses are public. A server without a private IPv4 address reports the public one as private.
func addressesOf(s server, external externalNetworks, choice addressChoice) resources.Addresses {
	var found, chosen resources.Addresses
	for _, network := range slices.Sorted(maps.Keys(s.Addresses)) {
		for _, a := range s.Addresses[network] {
			put(&found, a, external[network])
			if choice.network == "" || choice.network == network {
				put(&chosen, a, external[network])
			}
		}
	}
	found.Interface = choice.pick(chosen)
	found.PrivateIPv4 = cmp.Or(found.PrivateIPv4, found.PublicIPv4) // as Nodepool does; jobs with several nodes rely on it
	return found
}

func put(into *resources.Addresses, a address, external bool) {
	ip, err := netip.ParseAddr(a.Address)
	if err != nil {
		return
	}
	public := a.Type == "floating" || external || isPublic(ip)
	slot := &into.PrivateIPv4
	switch {
	case ip.Is4() && public:
		slot = &into.PublicIPv4
	case ip.Is6() && public:
		slot = &into.PublicIPv6
	case ip.Is6():
		slot = &into.PrivateIPv6
	}
	if *slot == "" || a.Type == "floating" {
		*slot = a.Address
	}
}

func isPublic(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !ip.IsLoopback() && !sharedSpace().Contains(ip)
}

// sharedSpace is the shared address space of carriers, RFC 6598.
func sharedSpace() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10) }

func parseInt(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
