package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Hash is a versioned digest of static attributes, such as "v1:4f1c…". The version names what goes into it and how.
type Hash string

// Hashes holds a thing's digest in every version this npctl knows, newest first.
type Hashes []Hash

// Current is the hash that new records carry.
func (h Hashes) Current() Hash {
	if len(h) == 0 {
		return ""
	}
	return h[0]
}

// Match reports whether a record with the recorded hash still is what h asks for. A hash of a version that this npctl
// does not know says nothing, so it matches: an upgrade or a downgrade never replaces a fleet by itself.
func (h Hashes) Match(recorded Hash) bool {
	version, _, ok := strings.Cut(string(recorded), ":")
	if !ok {
		return true
	}
	known := false
	for _, own := range h {
		if own == recorded {
			return true
		}
		v, _, _ := strings.Cut(string(own), ":")
		known = known || v == version
	}
	return !known
}

// InputFiles are the local files that go into an image.
type InputFiles struct {
	Hash  Hash              // of all of them together; empty when there are none
	Files map[string]string // digest of each file, by its path relative to the configuration; nil when there are too many to list
}

// HashValue returns the hashes of a value without unknown parts. Null attributes of objects are left out, so that an
// attribute added by a later npctl changes no hash until somebody writes it.
func HashValue(v cty.Value) Hashes {
	v, _ = v.UnmarkDeep()
	v = withoutNulls(v)
	text, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		panic("resources: hash of a value that is not known: " + err.Error())
	}
	sum := sha256.Sum256(append([]byte(v.Type().FriendlyName()+"\n"), text...))
	return Hashes{Hash("v1:" + hex.EncodeToString(sum[:16]))}
}

func withoutNulls(v cty.Value) cty.Value {
	if v.IsNull() || !v.Type().IsObjectType() {
		return v
	}
	kept := map[string]cty.Value{}
	for name, value := range v.AsValueMap() {
		if value = withoutNulls(value); !value.IsNull() {
			kept[name] = value
		}
	}
	return cty.ObjectVal(kept)
}
