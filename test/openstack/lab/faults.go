package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Deed is what a rule makes go wrong.
type Deed string

const (
	// Spawn is the start of a server on its host: the time in which it is BUILD, after the create was accepted.
	Spawn Deed = "spawn"
	// Destroy is the end of a server on its host, after the delete was answered with 204.
	Destroy Deed = "destroy"
	// Address is the server's addresses being shown: it is ACTIVE and has none until Rule.For has passed.
	Address Deed = "address"
	// FloatingIP is nova hearing of a floating IP of an active server; until then only neutron shows it.
	FloatingIP Deed = "floating-ip"
	// Snapshot is the making of an image of a server, after it was accepted. When it fails nova deletes the image.
	Snapshot Deed = "snapshot"
	// VolumeCreate and VolumeDelete are the work of the volume backend, after the call was accepted.
	VolumeCreate Deed = "volume-create"
	VolumeDelete Deed = "volume-delete"
)

// Action is what happens to a deed.
type Action string

const (
	// Fail makes it fail. A spawn is tried on the other host, and the server is ERROR when that fails too; a server
	// that cannot be destroyed goes back to ERROR; a second delete works when the rule allows it.
	Fail Action = "error"
	// Abort makes a spawn fail without another host being tried.
	Abort Action = "abort"
	// Delay makes it take Rule.For longer.
	Delay Action = "delay"
	// Hang makes it wait until the rule is gone: after Clear or another Faults it goes on and succeeds.
	Hang Action = "hang"
)

// Rule makes one kind of deed go wrong. Empty patterns match everything; patterns are those of path.Match without
// the special meaning of slashes.
type Rule struct {
	On     Deed          `json:"on"`
	Action Action        `json:"action,omitempty"` // default Fail; Address and FloatingIP know Delay only
	Name   string        `json:"name,omitempty"`   // pattern for the server's or volume's name
	Flavor string        `json:"flavor,omitempty"` // pattern for the server's flavor
	Host   string        `json:"host,omitempty"`   // pattern for the host: compute1 (zone az1), compute2 (az2)
	For    time.Duration `json:"-"`                // of Delay; default 5 s
	Times  int           `json:"times,omitempty"`  // how often it acts; 0 means always
}

// Faults replaces all rules; the first that matches a deed acts. They hold from the next deed on, and Times counts
// anew, even for a rule that was there before.
func (l *Lab) Faults(rules ...Rule) error {
	type line struct {
		Rule
		ID      string  `json:"id"`
		Seconds float64 `json:"seconds,omitempty"`
	}
	now := time.Now().UnixNano()
	lines := make([]line, 0, len(rules))
	for i, r := range rules {
		lines = append(lines, line{r, fmt.Sprintf("%d-%d", now, i), r.For.Seconds()})
	}
	text, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return fmt.Errorf("encode fault rules: %w", err)
	}
	return replaceFile(filepath.Join(l.dir, "faults.json"), append(text, '\n'))
}

// Clear takes all rules back.
func (l *Lab) Clear() error { return l.Faults() }

// replaceFile lets readers see the old content or the new, never a part.
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
