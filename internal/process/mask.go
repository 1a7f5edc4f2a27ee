package process

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// mask replaces a secret.
const mask = "(sensitive)"

// Masker removes secrets from text: verbatim, line by line, and quoted for a shell, a URL or JSON, in hex or in
// base64, also inside user:secret.
type Masker struct {
	secrets [][]byte // longest first
	longest int
	first   [256]bool // first bytes of the secrets
}

// NewMasker returns a masker for the secrets. It ignores blank ones.
func NewMasker(secrets []string) *Masker {
	m := &Masker{}
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if strings.TrimSpace(form) == "" || slices.ContainsFunc(m.secrets, func(s []byte) bool { return string(s) == form }) {
				continue
			}
			m.secrets = append(m.secrets, []byte(form))
			m.longest = max(m.longest, len(form))
			m.first[form[0]] = true
		}
	}
	slices.SortStableFunc(m.secrets, func(a, b []byte) int { return len(b) - len(a) })
	return m
}

// forms returns the forms in which a secret may appear in logs.
func forms(secret string) []string {
	quoted := strconv.Quote(secret)
	all := []string{
		secret, strings.TrimSpace(secret),
		quoted[1 : len(quoted)-1],
		inJSON(secret),
		strings.ReplaceAll(secret, "'", `'\''`), // sh -x
		url.QueryEscape(secret), url.PathEscape(secret),
	}
	if len(secret) >= 3 { // shorter ones would match too many words in this form
		all = append(all, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="))
	}
	if len(secret) >= longSecret {
		inHex := hex.EncodeToString([]byte(secret))
		all = append(append(all, inHex, strings.ToUpper(inHex)), inside64(secret)...)
	}
	if strings.Contains(strings.TrimSpace(secret), "\n") {
		for line := range strings.Lines(secret) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// longSecret is the length from which encoded parts of a secret do not match words by chance.
const longSecret = 6

// inside64 returns the base64 forms of a secret inside a longer text, such as user:secret, without the characters
// that depend on the surrounding text: at each of the three offsets, in both alphabets.
func inside64(secret string) []string {
	var all []string
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), secret...))
			all = append(all, text[(before*8+5)/6:(before+len(secret))*8/6])
		}
	}
	return all
}

// inJSON escapes <, > and & too, like many JSON encoders.
func inJSON(secret string) string {
	text, err := json.Marshal(secret)
	if err != nil {
		return ""
	}
	return string(text[1 : len(text)-1])
}

// Text returns the text without secrets.
func (m *Masker) Text(text string) string {
	out, _ := m.next(nil, []byte(text), true)
	return string(out)
}

// next appends the part of buf that can be shown to dst and returns the rest, which may be the start of a secret.
// With last there is no rest.
func (m *Masker) next(dst, buf []byte, last bool) (shown, rest []byte) {
	if len(m.secrets) == 0 {
		return append(dst, buf...), nil
	}
	from := 0
	for i := 0; i < len(buf); {
		if !m.first[buf[i]] {
			i++
			continue
		}
		if !last && m.begins(buf[i:]) {
			return append(dst, buf[from:i]...), buf[i:]
		}
		n := m.match(buf[i:])
		if n == 0 {
			i++
			continue
		}
		dst = append(append(dst, buf[from:i]...), mask...)
		i += n
		from = i
	}
	return append(dst, buf[from:]...), nil
}

// begins reports whether a secret may continue after the end of buf.
func (m *Masker) begins(buf []byte) bool {
	if len(buf) >= m.longest {
		return false
	}
	return slices.ContainsFunc(m.secrets, func(s []byte) bool { return len(s) > len(buf) && bytes.HasPrefix(s, buf) })
}

// match returns the length of the longest secret that buf starts with.
func (m *Masker) match(buf []byte) int {
	for _, s := range m.secrets {
		if bytes.HasPrefix(buf, s) {
			return len(s)
		}
	}
	return 0
}
