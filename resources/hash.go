package resources

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Hash is a versioned digest of static attributes. The version names what goes into it and how:
//
//	v1:DIGEST                    all attributes, SHA-256; for what has no sensitive attributes
//	v2:PUBLIC                    all attributes, with a placeholder for each sensitive one, SHA-256
//	v2:PUBLIC:KEY:MAC            the same, and all attributes with their values, HMAC-SHA-256 with the key of that id
//
// Nobody without the key can try values of sensitive attributes on a hash of version 2. Records of an older npctl have
// version 1 for everything.
type Hash string

const (
	hashV1 = "v1"
	hashV2 = "v2"
)

// hashParts are the parts of a hash; all but the version and the public digest are empty in version 1.
type hashParts struct{ version, public, key, mac string }

func (h Hash) parts() (p hashParts) {
	for i, part := range strings.SplitN(string(h), ":", 4) {
		*[]*string{&p.version, &p.public, &p.key, &p.mac}[i] = part
	}
	return p
}

// same reports whether two hashes are of the same attributes, as far as can be known: where they are keyed with
// different keys, or one is not keyed, sensitive attributes do not count.
func (h Hash) same(other Hash) bool {
	a, b := h.parts(), other.parts()
	switch {
	case h == other:
		return true
	case a.version != hashV2 || b.version != hashV2:
		return false
	case a.key == b.key && a.key != "":
		return a.mac == b.mac
	default:
		return a.public == b.public
	}
}

// Mix returns a hash with each of its digests replaced by what mix makes of it.
func (h Hash) Mix(mix func(string) string) Hash {
	p := h.parts()
	switch {
	case p.version != hashV2:
		return Hash(p.version + ":" + mix(string(h)))
	case p.key == "":
		return Hash(p.version + ":" + mix(p.public))
	default:
		return Hash(strings.Join([]string{p.version, mix(p.public), p.key, mix(p.mac)}, ":"))
	}
}

// Hashes holds a thing's digest in every version this npctl knows. The first is the one that new records get.
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
	known := slices.ContainsFunc(h, func(own Hash) bool { return own.parts().version == version })
	return !ok || !known || h.Same(recorded)
}

// Same is Match for what must not be taken for the same when it is not known.
func (h Hashes) Same(recorded Hash) bool { return slices.ContainsFunc(h, recorded.same) }

// HashKey is the secret that a state keeps for the hashes of sensitive attributes. It is in no record, plan, export or log.
type HashKey string

// NewHashKey returns a random key.
func NewHashKey() HashKey {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return HashKey(key)
}

// String implements fmt.Stringer, to keep the key out of texts.
func (HashKey) String() string { return "(sensitive)" }

// GoString implements fmt.GoStringer, to keep the key out of texts.
func (HashKey) GoString() string { return "(sensitive)" }

// sum is the HMAC of a text.
func (k HashKey) sum(text []byte) string {
	mac := hmac.New(sha256.New, []byte(k))
	_, _ = mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// id tells keys apart and says nothing else about them.
func (k HashKey) id() string { return k.sum([]byte("id of the key"))[:8] }

// HashSource is what the hashes of a thing are made of, once the key is known. It is not for keeping: its sums have
// sensitive values in them.
type HashSource struct {
	full, public [sha256.Size]byte
	sensitive    bool
}

// Equal lets tests compare what holds sources.
func (s HashSource) Equal(other HashSource) bool { return s == other }

// NewHashSource makes a source of two digests, with and without sensitive values.
func NewHashSource(full, public [sha256.Size]byte) HashSource {
	return HashSource{full: full, public: public, sensitive: true}
}

// SourceOfHash makes a source of a value without unknown parts, whose sensitive parts are marked. Null attributes of
// objects are left out, so that an attribute added by a later npctl changes no hash until somebody writes it.
func SourceOfHash(v cty.Value) HashSource {
	plain, _ := v.UnmarkDeep()
	return HashSource{full: sumOf(plain), public: sumOf(withoutMarked(v)), sensitive: v.ContainsMarked()}
}

// Hashes returns the hashes with a key; without one those of version 2 are not keyed.
func (s HashSource) Hashes(key HashKey) Hashes {
	if s == (HashSource{}) {
		return nil
	}
	v2 := hashV2 + ":" + hex.EncodeToString(s.public[:16])
	if key != "" {
		v2 += ":" + key.id() + ":" + key.sum(s.full[:])
	}
	all := Hashes{Hash(v2), Hash(hashV1 + ":" + hex.EncodeToString(s.full[:16]))}
	if !s.sensitive {
		slices.Reverse(all)
	}
	return all
}

// over returns the hashes with a key in place of others, which remain where there is no source.
func (s HashSource) over(key HashKey, others Hashes) Hashes {
	if hashes := s.Hashes(key); hashes != nil {
		return hashes
	}
	return others
}

// HashValue returns the hashes of a value, without a key.
func HashValue(v cty.Value) Hashes { return SourceOfHash(v).Hashes("") }

func sumOf(v cty.Value) [sha256.Size]byte {
	v = withoutNulls(v)
	text, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		panic("resources: hash of a value that is not known: " + err.Error())
	}
	return sha256.Sum256(append([]byte(v.Type().FriendlyName()+"\n"), text...))
}

// withoutMarked puts a placeholder where a value, or an element of a list, set or map, is marked.
func withoutMarked(v cty.Value) cty.Value {
	switch {
	case !v.ContainsMarked():
		return v
	case !v.IsMarked() && v.Type().IsObjectType():
		parts := v.AsValueMap()
		for name, part := range parts {
			parts[name] = withoutMarked(part)
		}
		return cty.ObjectVal(parts)
	case !v.IsMarked() && v.Type().IsTupleType():
		parts := v.AsValueSlice()
		for i, part := range parts {
			parts[i] = withoutMarked(part)
		}
		return cty.TupleVal(parts)
	default:
		return cty.StringVal("(sensitive)")
	}
}

// InputFiles are the local files that go into an image.
type InputFiles struct {
	Hash  Hash              // of all of them together; empty when there are none
	Files map[string]string // digest of each file, by its path relative to the configuration; nil when there are too many to list
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
