package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
)

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

// RangeOf returns the address range of the cloud in a state file. ok is false if the file does not exist, or the
// cloud has another network named private.
func RangeOf(file string) (n int, ok bool, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }() // opened read-only
	var w struct {
		Subnets []subnet `json:"subnets"`
	}
	if err := json.NewDecoder(io.LimitReader(f, maxStateSize)).Decode(&w); err != nil {
		return 0, false, fmt.Errorf("emulator state %s: %w", file, err)
	}
	for i := range w.Subnets {
		for n := range MaxRange + 1 {
			if private, _ := ranges(n); w.Subnets[i].CIDR == private {
				return n, true, nil
			}
		}
	}
	return 0, false, nil
}
