package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/resources"
)

// blockDigests collects the digests of the evaluated blocks, in no order.
type blockDigests struct{ blocks []resources.Block }

// digest records the digest of a block, so that a saved plan can name the blocks that have changed. kind is the label
// before the name, such as a driver. A sensitive value counts only as set or not set, because the digest is not
// secret.
func (r *blockReader) digest(address, kind string, at hcl.Range, bodies ...values) {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q", kind)
	for _, body := range bodies {
		_, _ = fmt.Fprint(sum, "{")
		for _, name := range slices.Sorted(maps.Keys(body)) {
			_, _ = io.WriteString(sum, strconv.Quote(name)+":")
			if value := body[name]; value.ContainsMarked() {
				_, _ = io.WriteString(sum, masked)
			} else {
				digestPlain(sum, value)
			}
		}
	}
	r.digests.blocks = append(r.digests.blocks, resources.Block{Address: address, Digest: hex.EncodeToString(sum.Sum(nil)[:8]), Source: r.sourceOf(at)})
}
