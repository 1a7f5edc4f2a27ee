package emulator

import "net/netip"

// MaxRange is the highest number of an address range.
const MaxRange = 77

// ranges returns the subnets of the networks private and public. Range 0 is 127.77.0.0/16 and 127.78.0.0/16; the
// others start at 127.100.0.0/16.
func ranges(n int) (private, public netip.Prefix) {
	second := byte(77)
	if n > 0 {
		second = byte(98 + 2*n)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, second}), 16), netip.PrefixFrom(netip.AddrFrom4([4]byte{127, second + 1}), 16)
}
