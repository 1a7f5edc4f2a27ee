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

// role is what somebody may do.
type role int

const (
	nobody role = iota // no token
	reader             // look at everything but what requestors attach to their requests
	full               // everything that is served beyond the machine
	local              // everything: whoever may open the unix socket
)

// The words for roles in a file of tokens.
const (
	wordReader = "read-only"
	wordFull   = "full"
)

// tokenAtLeast is how short a token may be: whoever can guess it has what it allows.
const tokenAtLeast = 20

// Tokens are who may use what is not a unix socket. The file that they are read from has a line for each:
//
//	name role token
//	name role sha256:hex
//
// where role is read-only or full. Empty lines and those that begin with # mean nothing. The file is read again every two
// seconds; one that cannot be understood leaves what was read before in effect.
type Tokens struct{ reloading[[]token] }

// token is what is kept of one: never itself.
type token struct {
	name string
	role role
	sum  [sha256.Size]byte
}

// ReadTokens reads a file of tokens. One that others can read is refused, unless it has only hashes.
func ReadTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{}
	t.what, t.log = "the file of tokens", log
	t.read = func() ([]token, []byte, error) { return readTokens(path) }
	t.gone = func(err error) ([]token, bool) { return nil, errors.Is(err, os.ErrNotExist) }
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
		return nil, nil, fmt.Errorf("tokens: everybody on this machine can read %s; chmod 600 it, or write sha256:HEX instead of tokens", path)
	}
	return known, text, nil
}

// parseTokens parses the text of a file of tokens, and reports whether a token is written in plain.
func parseTokens(path string, text []byte) (known []token, plain bool, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, isPlain, err := parseToken(line)
		if err != nil {
			return nil, false, fmt.Errorf("tokens: %s:%d: %w", path, n, err) // never with the line itself
		}
		for _, other := range known {
			if other.name == one.name {
				return nil, false, fmt.Errorf("tokens: %s:%d: %s is there twice", path, n, one.name)
			}
		}
		known, plain = append(known, one), plain || isPlain
	}
	if err := lines.Err(); err != nil {
		return nil, false, fmt.Errorf("tokens: %s: %w", path, err)
	}
	if len(known) == 0 {
		return nil, false, fmt.Errorf("tokens: %s has none, so nobody could get in", path)
	}
	return known, plain, nil
}

func parseToken(line string) (one token, plain bool, err error) {
	words := strings.Fields(line)
	if len(words) != 3 {
		return token{}, false, fmt.Errorf("a line has a name, a role and a token, and this one has %s", text.Count(len(words), "word", "words"))
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
		return token{}, false, fmt.Errorf("the token of %s has fewer than %d characters; openssl rand -hex 32 makes a good one", one.name, tokenAtLeast)
	}
	one.sum = sha256.Sum256([]byte(words[2]))
	return one, true, nil
}

// find says whose token that is. It takes the same time for every wrong one.
func (t *Tokens) find(given string) (name string, may role) {
	sum := sha256.Sum256([]byte(given))
	for _, one := range t.current() {
		if subtle.ConstantTimeCompare(sum[:], one.sum[:]) == 1 {
			name, may = one.name, one.role
		}
	}
	return name, may
}
