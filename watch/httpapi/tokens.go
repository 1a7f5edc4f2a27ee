package httpapi

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// role determines what a caller may do. Roles are ordered: each includes those before it.
type role int

const (
	anonymous role = iota // no valid token
	reader                // read everything except the data that requestors attach to requests
	full                  // everything that is served beyond the machine
	local                 // everything, for callers on the unix socket
)

// The names of roles in a token file.
const (
	wordReader = "read-only"
	wordFull   = "full"
)

// tokenAtLeast is the minimum length of a token, to prevent guessing.
const tokenAtLeast = 20

// Tokens grant access to listeners other than unix sockets. The token file has one line for each:
//
//	name role token
//	name role sha256:hex
//
// where role is read-only or full. Empty lines and lines that start with # are ignored. The file is read again every two
// seconds while tokens are checked; a file with mistakes keeps the previous tokens in effect, and a deleted file revokes
// all of them.
type Tokens struct{ reloadedFile[[]token] }

// token is the stored form of a token: only its hash is kept.
type token struct {
	name string
	role role
	sum  [sha256.Size]byte
}

// ReadTokens reads a token file. It rejects a file that other users can read, unless it contains only hashes.
func ReadTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{}
	t.what, t.log = "the token file", log
	t.read = func() ([]token, []byte, error) { return readTokens(path) }
	t.onError = func(err error) ([]token, bool) { return nil, errors.Is(err, os.ErrNotExist) }
	return t, t.open()
}

func readTokens(path string) (known []token, text []byte, err error) {
	if text, err = readSmall(path); err != nil {
		return nil, nil, fmt.Errorf("tokens: %w", err)
	}
	known, plain, err := parseTokens(path, text)
	if err != nil {
		return nil, nil, err
	}
	if info, err := os.Stat(path); plain && (err != nil || info.Mode().Perm()&0o007 != 0) {
		return nil, nil, fmt.Errorf("tokens: all users can read %s; chmod 600 it, or write sha256:HEX instead of tokens", path)
	}
	return known, text, nil
}

// parseTokens parses a token file and reports whether it contains a plain token.
func parseTokens(path string, text []byte) (known []token, plain bool, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, isPlain, err := parseToken(line)
		if err != nil {
			return nil, false, fmt.Errorf("tokens: %s:%d: %w", path, n, err) // the error omits the line, which may contain a token
		}
		for _, other := range known {
			if other.name == one.name {
				return nil, false, fmt.Errorf("tokens: %s:%d: duplicate name %s", path, n, one.name)
			}
		}
		known, plain = append(known, one), plain || isPlain
	}
	if err := lines.Err(); err != nil {
		return nil, false, fmt.Errorf("tokens: %s: %w", path, err)
	}
	if len(known) == 0 {
		return nil, false, fmt.Errorf("tokens: %s contains no tokens", path)
	}
	return known, plain, nil
}

func parseToken(line string) (one token, plain bool, err error) {
	words := strings.Fields(line)
	if len(words) != 3 {
		return token{}, false, fmt.Errorf("a line needs a name, a role and a token, and this line has %s", text.Count(len(words), "word", "words"))
	}
	one.name = words[0]
	switch words[1] {
	case wordReader:
		one.role = reader
	case wordFull:
		one.role = full
	default:
		return token{}, false, fmt.Errorf("the role of %s is neither %s nor %s", one.name, wordReader, wordFull)
	}
	if digits, hashed := strings.CutPrefix(words[2], "sha256:"); hashed {
		sum, err := hex.DecodeString(digits)
		if err != nil || len(sum) != sha256.Size {
			return token{}, false, fmt.Errorf("the hash of %s is not 64 hex digits", one.name)
		}
		copy(one.sum[:], sum)
		return one, false, nil
	}
	if len(words[2]) < tokenAtLeast {
		return token{}, false, fmt.Errorf("the token of %s has fewer than %d characters; generate one with openssl rand -hex 32", one.name, tokenAtLeast)
	}
	one.sum = sha256.Sum256([]byte(words[2]))
	return one, true, nil
}

// find returns the name and role of a token. It takes the same time for every invalid token.
func (t *Tokens) find(given string) (name string, may role) {
	sum := sha256.Sum256([]byte(given))
	for _, one := range t.current() {
		if subtle.ConstantTimeCompare(sum[:], one.sum[:]) == 1 {
			name, may = one.name, one.role
		}
	}
	return name, may
}
