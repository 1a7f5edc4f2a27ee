package process

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSecretsAreMaskedInEveryShape(t *testing.T) {
	secret := `p'a"ss/w&rd`
	encoded, _ := json.Marshal(secret)
	for _, shape := range []string{
		secret,
		`'p'\''a"ss/w&rd'`,
		url.QueryEscape(secret),
		url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)),
		strings.Trim(string(encoded), `"`),
	} {
		if got := NewMasker([]string{secret}).Text("see " + shape + " there"); strings.Contains(got, "ss/") || !strings.Contains(got, mask) {
			t.Errorf("%s is shown as %s", shape, got)
		}
	}
}

func TestEachLineOfASecretIsMasked(t *testing.T) {
	m := NewMasker([]string{"-----BEGIN KEY-----\nabc123\ndef456\n-----END KEY-----\n"})
	got := m.Text("first abc123\r\nthen def456")
	if want := "first (sensitive)\r\nthen (sensitive)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBlankSecretsMaskNothing(t *testing.T) {
	if got := NewMasker([]string{"", " ", "\n"}).Text("a b\nc"); got != "a b\nc" {
		t.Errorf("got %q", got)
	}
}

// The masked output does not depend on how the output is cut into pieces, and contains no secret.
func TestPiecesOfOutputAreMaskedAsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 6, -1)
		secrets := rapid.SliceOfN(word, 1, 4).Draw(t, "secrets")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abc\n")), 0, 60, -1).Draw(t, "text")
		m := NewMasker(secrets)
		var shown, rest []byte
		for left := []byte(text); len(left) > 0; {
			n := rapid.IntRange(1, len(left)).Draw(t, "piece")
			shown, rest = m.next(shown, append(rest, left[:n]...), false)
			rest = append([]byte(nil), rest...)
			left = left[n:]
		}
		shown, _ = m.next(shown, rest, true)
		if diff := cmp.Diff(m.Text(text), string(shown)); diff != "" {
			t.Errorf("in one piece and in several (-one +several):\n%s", diff)
		}
		for _, secret := range secrets {
			if strings.Contains(strings.ReplaceAll(string(shown), mask, "|"), secret) {
				t.Errorf("%q is in %q", secret, shown)
			}
		}
	})
}

func TestSecretsAreMaskedInEncodings(t *testing.T) {
	const secret = "hunter2-?>~"
	m := NewMasker([]string{secret})
	for _, text := range []string{
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
		base64.StdEncoding.EncodeToString([]byte("u:" + secret)), base64.StdEncoding.EncodeToString([]byte("me:" + secret)),
		base64.StdEncoding.EncodeToString([]byte("bot:" + secret + "\n")), base64.URLEncoding.EncodeToString([]byte("me:" + secret)),
	} {
		got := m.Text("Authorization: Basic " + text)
		shown := strings.TrimPrefix(strings.Replace(got, mask, "", 1), "Authorization: Basic ")
		if !strings.Contains(got, mask) || len(shown) > 10 {
			t.Errorf("%s becomes %q", text, got)
		}
	}
}
