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

// Hash is a versioned digest of replacing attributes. The version defines its content and algorithm:
//
//	v1:DIGEST                    all attributes, SHA-256; for objects without sensitive attributes
//	v2:PUBLIC                    all attributes, with a placeholder for each sensitive one, SHA-256
//	v2:PUBLIC:KEY:MAC            the same, and all attributes with their values, HMAC-SHA-256 with the key of that ID
//
// Guessing sensitive values from a hash of version 2 requires the key. Records of older npctl versions have version 1
// for all objects.
type Hash string

const (
	hashV1 = "v1"
	hashV2 = "v2"
)

// hashParts are the parts of a hash; all but the version and the public digest are empty in version 1.
type hashParts struct{ version, public, key, mac string }

func (h Hash) parts() (p hashParts) {
	var rest string
	p.version, rest, _ = strings.Cut(string(h), ":")
	p.public, rest, _ = strings.Cut(rest, ":")
	p.key, p.mac, _ = strings.Cut(rest, ":")
	return p
}

// same reports whether two hashes are of the same attributes, as far as they can be compared: if their keys differ,
// or one has no key, sensitive attributes are ignored.
func (h Hash) same(other Hash) bool {
	if h == other {
		return true
	}
	a, b := h.parts(), other.parts()
	switch {
	case a.version != hashV2 || b.version != hashV2:
		return false
	case a.key == b.key && a.key != "":
		return a.mac == b.mac
	default:
		return a.public == b.public
	}
}

// MapDigests returns a hash with each of its digests replaced by the result of mix.
func (h Hash) MapDigests(mix func(string) string) Hash {
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

// Hashes holds the digest of one object in every version that this npctl knows, the version for new records first.
type Hashes []Hash

// Current returns the hash for new records.
func (h Hashes) Current() Hash {
	if len(h) == 0 {
		return ""
	}
	return h[0]
}

// Match reports whether the recorded hash still matches h. A hash of a version that this npctl does not know always
// matches, so that an upgrade or downgrade does not replace all nodes and images.
func (h Hashes) Match(recorded Hash) bool {
	if slices.Contains(h, recorded) {
		return true // the common case: a plan compares the hash of every node
	}
	version, _, ok := strings.Cut(string(recorded), ":")
	known := slices.ContainsFunc(h, func(own Hash) bool { return own.parts().version == version })
	return !ok || !known || h.Same(recorded)
}

// Same is like Match, but a hash of an unknown version does not match.
func (h Hashes) Same(recorded Hash) bool { return slices.ContainsFunc(h, recorded.same) }

// HashKey is the secret key of a state for hashes of sensitive attributes. Records, plans, exports and logs never
// contain it.
type HashKey string

// NewHashKey returns a random key.
func NewHashKey() HashKey {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return HashKey(key)
}

// String implements fmt.Stringer; it hides the key.
func (HashKey) String() string { return "(sensitive)" }

// GoString implements fmt.GoStringer; it hides the key.
func (HashKey) GoString() string { return "(sensitive)" }

// sum returns the HMAC of a text, as the hexadecimal digits of its first 16 bytes.
func (k HashKey) sum(text []byte) string {
	mac := hmac.New(sha256.New, []byte(k))
	_, _ = mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// id returns an identifier that distinguishes keys and reveals nothing else about them.
func (k HashKey) id() string { return k.sum([]byte("id of the key"))[:8] }

// HashSource is the input of the hashes of one object before the key is known. Do not store it: its digests cover
// sensitive values without a key.
type HashSource struct {
	full, public [sha256.Size]byte
	sensitive    bool
}

// Equal lets tests compare values that contain sources.
func (s HashSource) Equal(other HashSource) bool { return s == other }

// NewHashSource returns a source made of two digests, with and without sensitive values.
func NewHashSource(full, public [sha256.Size]byte) HashSource {
	return HashSource{full: full, public: public, sensitive: true}
}

// SourceOfHash returns the source of a value without unknown parts. Sensitive parts must be marked. SourceOfHash
// omits null attributes of objects, so that a new attribute of a later npctl does not change a hash until a
// configuration sets it.
func SourceOfHash(v cty.Value) HashSource {
	if !v.ContainsMarked() {
		sum := sumOf(v)
		return HashSource{full: sum, public: sum}
	}
	plain, _ := v.UnmarkDeep()
	return HashSource{full: sumOf(plain), public: sumOf(withoutMarked(v)), sensitive: true}
}

// Hashes returns the hashes with the key. Without a key, those of version 2 have no MAC.
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

// hashesOr returns the hashes with the key, or others if the source is empty.
func (s HashSource) hashesOr(key HashKey, others Hashes) Hashes {
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

// withoutMarked replaces each marked value, and each list, set or map with a marked element, by a placeholder.
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
	Hash  Hash              // of all files together; empty without files
	Files map[string]string // digest of each file, by its path relative to the configuration; nil if there are too many to list
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
