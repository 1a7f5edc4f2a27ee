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

// blockDigests collects the digests of the evaluated blocks, in no order, and with keep the blocks themselves.
type blockDigests struct {
	keep      bool
	blocks    []resources.Block
	evaluated []evaluated
}

// evaluated is a block with its values.
type evaluated struct {
	ref    resources.BlockRef
	kind   string
	at     hcl.Range
	bodies []body // of a diskimage: its own, and that of its builder
	report *report
}

// body is a body as written, and its values.
type body struct {
	content *content
	values  values
}

// digest records the digest of a block, so that a saved plan can name the blocks that have changed. kind is the label
// before the name, such as a driver. A sensitive value counts only as set or not set, because the digest is not
// secret.
func (r *blockReader) digest(ref resources.BlockRef, kind string, at hcl.Range, bodies ...body) {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q", kind)
	for _, b := range bodies {
		_, _ = fmt.Fprint(sum, "{")
		for _, name := range slices.Sorted(maps.Keys(b.values)) {
			if optionalAttributes[name] && b.values[name].IsNull() {
				continue
			}
			_, _ = io.WriteString(sum, strconv.Quote(name)+":")
			if value := b.values[name]; value.ContainsMarked() {
				_, _ = io.WriteString(sum, masked)
			} else {
				digestPlain(sum, value)
			}
		}
	}
	r.digests.blocks = append(r.digests.blocks, resources.Block{Address: ref.String(), Digest: hex.EncodeToString(sum.Sum(nil)[:8]), Source: r.sourceOf(at)})
	if r.digests.keep {
		r.digests.evaluated = append(r.digests.evaluated, evaluated{ref, kind, at, bodies, r.report})
	}
}
