package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Deed is an operation of the cloud that a Rule affects.
type Deed string

const (
	// Spawn is the start of a server on its host: the time in BUILD after the create was accepted.
	Spawn Deed = "spawn"
	// Destroy is the deletion of a server on its host after the delete was answered with 204.
	Destroy Deed = "destroy"
	// Address is the display of the server's addresses: the server is ACTIVE and has none until Rule.For has passed or the rule is removed.
	Address Deed = "address"
	// FloatingIP is the propagation of an active server's floating IP to nova; until then only neutron shows it.
	FloatingIP Deed = "floating-ip"
	// Snapshot is the creation of an image of a server after it was accepted. If it fails, nova deletes the image.
	Snapshot Deed = "snapshot"
	// VolumeCreate and VolumeDelete are the work of the volume backend after the call was accepted.
	VolumeCreate Deed = "volume-create"
	VolumeDelete Deed = "volume-delete"
)

// Action is the effect of a Rule.
type Action string

const (
	// Fail makes the operation fail. Nova retries a spawn on the other host, and the server is ERROR if that fails too.
	// A server that cannot be destroyed returns to ERROR; a second delete succeeds if the rule permits it.
	Fail Action = "error"
	// Abort makes a spawn fail without a retry on another host.
	Abort Action = "abort"
	// Delay extends the operation by Rule.For.
	Delay Action = "delay"
	// Hang blocks the operation until the rule is removed: after Clear or another call of Faults it continues and
	// succeeds.
	Hang Action = "hang"
)

// Rule affects operations of one kind. An empty pattern matches everything; patterns have the syntax of path.Match, but
// slashes have no special meaning.
type Rule struct {
	On     Deed          `json:"on"`
	Action Action        `json:"action,omitempty"` // default Fail; Address and FloatingIP support Delay and Hang
	Name   string        `json:"name,omitempty"`   // pattern for the server's or volume's name
	Flavor string        `json:"flavor,omitempty"` // pattern for the server's flavor
	Host   string        `json:"host,omitempty"`   // pattern for the host: compute1 (zone az1), compute2 (az2)
	For    time.Duration `json:"-"`                // of Delay; default 5 s
	Times  int           `json:"times,omitempty"`  // how often the rule applies; 0: always
}

// ruleLine is a rule as the services read it.
type ruleLine struct {
	Rule
	ID      string  `json:"id"`
	Seconds float64 `json:"seconds,omitempty"` // Rule.For
}

// Faults replaces all rules. The first rule that matches an operation applies. The rules apply to operations that start
// after the call, and Times starts at zero even for an unchanged rule.
func (l *Lab) Faults(rules ...Rule) error {
	now := time.Now().UnixNano()
	lines := make([]ruleLine, 0, len(rules))
	for i, r := range rules {
		lines = append(lines, ruleLine{r, fmt.Sprintf("%d-%d", now, i), r.For.Seconds()})
	}
	text, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return fmt.Errorf("encode fault rules: %w", err)
	}
	return replaceFile(l.rulesFile(), append(text, '\n'))
}

// Unused returns the current rules that have not affected any operation, so that a test can check that its faults occurred.
func (l *Lab) Unused() ([]Rule, error) {
	text, err := os.ReadFile(l.rulesFile())
	if err != nil {
		return nil, fmt.Errorf("read fault rules: %w", err)
	}
	var lines []ruleLine
	if err := json.Unmarshal(text, &lines); err != nil {
		return nil, fmt.Errorf("decode fault rules: %w", err)
	}
	used, err := os.ReadFile(l.rulesFile() + ".used") // the services append the ID of a rule at each use
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read uses of fault rules: %w", err)
	}
	ids := strings.Fields(string(used))
	var unused []Rule
	for _, line := range lines {
		if !slices.Contains(ids, line.ID) {
			line.For = time.Duration(line.Seconds * float64(time.Second))
			unused = append(unused, line.Rule)
		}
	}
	return unused, nil
}

func (l *Lab) rulesFile() string { return filepath.Join(l.dir, "faults.json") }

// Clear removes all rules.
func (l *Lab) Clear() error { return l.Faults() }

// replaceFile replaces a file atomically: readers see the old content or the new, never a part.
func replaceFile(path string, content []byte) error {
	part := path + ".part"
	if err := os.WriteFile(part, content, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
