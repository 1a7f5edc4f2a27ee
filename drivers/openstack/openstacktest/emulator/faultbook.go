package emulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"sync"
)

// maxFaultFile is the maximum size of a file of faults in bytes.
const maxFaultFile = 1 << 20

// faultBook holds the scripted faults: those set from Go or configuration, then those of the file.
type faultBook struct {
	file string
	seed uint64

	mu    sync.Mutex
	own   []rule // guarded by mu
	read  []rule // of the file; guarded by mu
	stamp stamp  // of the file as read; guarded by mu
}

// rule is a fault with its patterns compiled.
type rule struct {
	Fault
	key                           string // key of its counts in the state
	operation, method, path, name glob
}

// hits counts the calls that matched a rule.
type hits struct {
	Seen  int `json:"seen"`  // calls that matched
	Fired int `json:"fired"` // of those, calls that failed
}

func newFaultBook(faults []Fault, file string, seed uint64) *faultBook {
	b := &faultBook{file: file, seed: seed}
	b.set(faults)
	return b
}

func (b *faultBook) set(faults []Fault) {
	rules := compile("own", faults)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.own = rules
}

// rules returns the current rules.
func (b *faultBook) rules() ([]rule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == "" {
		return b.own, nil
	}
	if err := b.reread(); err != nil {
		return nil, err
	}
	return append(b.own[:len(b.own):len(b.own)], b.read...), nil
}

// reread is called with the lock held; the file is small and local. A missing file means no faults.
func (b *faultBook) reread() error {
	at, err := stampOf(b.file)
	if os.IsNotExist(err) {
		b.read, b.stamp = nil, stamp{}
		return nil
	}
	if err != nil || at == b.stamp {
		return err
	}
	faults, err := readFaults(b.file, at.size)
	if err != nil {
		return err
	}
	b.read, b.stamp = compile("file", faults), at
	return nil
}

func readFaults(file string, size int64) ([]Fault, error) {
	if size > maxFaultFile {
		return nil, fmt.Errorf("faults %s: %d bytes exceeds the limit of %d bytes", file, size, maxFaultFile)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	var faults []Fault
	if err := strictJSON(text, &faults); err != nil {
		return nil, fmt.Errorf("faults %s: %w", file, err)
	}
	for i, f := range faults {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("faults %s: fault %d: %w", file, i+1, err)
		}
	}
	return faults, nil
}

func strictJSON(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// compile compiles faults to rules. A rule's key depends only on its content and position, so that a process that
// reads the same faults later continues the counts.
func compile(origin string, faults []Fault) []rule {
	rules := make([]rule, 0, len(faults))
	for i, f := range faults {
		text, _ := json.Marshal(f) // a struct of strings and numbers
		sum := sha256.Sum256(fmt.Appendf(text, "%s %d", origin, i))
		rules = append(rules, rule{
			Fault: f, key: hex.EncodeToString(sum[:8]), operation: newGlob(f.Operation), method: newGlob(f.Method),
			path: newGlob(f.Path), name: newGlob(f.Name),
		})
	}
	return rules
}

// fires decides whether the next matching call fails. The same calls in the same order meet the same faults.
func (r rule) fires(h *hits, seed uint64) bool {
	h.Seen++
	n := h.Seen - r.After
	if n <= 0 || (r.Every > 1 && n%r.Every != 0) || (r.Times > 0 && h.Fired >= r.Times) {
		return false
	}
	if r.Probability > 0 && chance(seed, r.key, n) >= r.Probability {
		return false
	}
	h.Fired++
	return true
}

// chance returns a number in [0, 1) that depends only on its arguments.
func chance(seed uint64, key string, n int) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d", seed, key, n))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / math.Exp2(53)
}

// glob is a pattern in which * matches any text and ? any one character. The zero glob matches everything.
type glob struct{ expression *regexp.Regexp }

func newGlob(pattern string) glob {
	if pattern == "" || pattern == "*" {
		return glob{}
	}
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(quoted)
	return glob{regexp.MustCompile(`^(?s:` + quoted + `)$`)}
}

func (g glob) match(text string) bool { return g.expression == nil || g.expression.MatchString(text) }
