// Package planfile stores plans in files and compares a saved plan with a new one.
package planfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/npctl/npctl/internal/host"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// A plan file is two lines of JSON: a header with the kind and the format of the file, and the plan. The header
// contains the length and the SHA-256 of the second line, to detect a truncated or edited file. This guards against
// accidents only: a user with write permission can create a valid file, so keep it in a directory that only users
// with permission to apply can write.

// Errors of Read that callers branch on.
var (
	// ErrNotPlanFile: the file is not a plan file.
	ErrNotPlanFile = errors.New("not a plan file")
	// ErrFormat: another npctl wrote the file, in a format that this one cannot read.
	ErrFormat = errors.New("plan file of another format")
	// ErrDamaged: the file was truncated or edited.
	ErrDamaged = errors.New("plan file is damaged")
)

// sizeLimit is the maximum size of a plan file, in bytes: about 300,000 steps.
const sizeLimit = 256 << 20

const (
	kind        = "npctl plan"
	format      = 5
	headerLimit = 4 << 10
)

// Begin is the beginning of each saved plan.
const Begin = `{"kind":"` + kind + `",`

// File is a saved plan with everything that is needed to apply it except the configuration and the secrets.
type File struct {
	Meta plan.Meta `json:"meta"`
	Plan plan.Plan `json:"plan"`
	// Records are the records that the steps rely on, by the subject of the fingerprint, to report differences later.
	Records map[string]plan.Attributes `json:"records,omitempty"`
	// Blocks are the blocks of the plan's configuration.
	Blocks []resources.Block `json:"blocks,omitempty"`
	// Variables are the values of the plan's variables, without the sensitive ones.
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
	// Sensitive names the variables that must be set again to apply the plan.
	Sensitive []string `json:"sensitive_variables,omitempty"`
	// Change is set if the plan has only the steps of a change of the configuration, and their dependencies.
	Change *Change `json:"change,omitempty"`
}

// Change is a change of the configuration with its effect, as it was reviewed.
type Change struct {
	Effect plan.Effect `json:"effect"`
	// Files are the files of the configuration by the names that sources have, if they are in a git repository.
	Files map[string]ConfigurationFile `json:"files,omitempty"`
}

// ConfigurationFile is a file of a configuration in a git repository.
type ConfigurationFile struct {
	Path    string `json:"path"`    // from the top of the work tree, with slashes
	Touched bool   `json:"touched"` // the change touches it
}

type fileHeader struct {
	Kind         string `json:"kind"`
	Format       int    `json:"format"`
	NpctlVersion string `json:"npctl_version"`
	Size         int    `json:"size"`
	SHA256       string `json:"sha256"`
}

// Write saves the plan with read permission for its owner only. It replaces an existing file at path atomically.
func (f File) Write(path string) error {
	content, err := f.encode()
	if err != nil {
		return fmt.Errorf("save plan to %s: %w", path, err)
	}
	if err := host.ReplaceFile(path, content, 0o600); err != nil {
		return fmt.Errorf("save plan to %s: %w", path, err)
	}
	return nil
}

func (f File) encode() ([]byte, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	header, err := json.Marshal(headerFor(body, f.Meta.NpctlVersion))
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(header)+len(body)+2)
	out = append(append(out, header...), '\n')
	out = append(append(out, body...), '\n')
	if len(out) > sizeLimit {
		return nil, fmt.Errorf("the plan has %d MiB, and the limit of a plan file is %d; limit the plan with -target", len(out)>>20, sizeLimit>>20)
	}
	return out, nil
}

func headerFor(body []byte, version string) fileHeader {
	sum := sha256.Sum256(body)
	return fileHeader{Kind: kind, Format: format, NpctlVersion: version, Size: len(body), SHA256: hex.EncodeToString(sum[:])}
}

// Read reads a saved plan. It returns one of the errors above if the file is not a plan file, has another format
// or is damaged.
func Read(path string) (File, error) {
	content, err := host.ReadFile(path, sizeLimit)
	if _, failed := errors.AsType[*fs.PathError](err); failed {
		return File{}, fmt.Errorf("open plan file: %w", err)
	}
	if err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrNotPlanFile, err)
	}
	f, err := decode(content)
	if err != nil {
		return File{}, fmt.Errorf("plan file %s: %w", path, err)
	}
	return f, nil
}

func decode(content []byte) (File, error) {
	header, body, err := splitHeader(content)
	if err != nil {
		return File{}, err
	}
	if err := header.check(body); err != nil {
		return File{}, err
	}
	var f File
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields() // a step must not lose a field that a newer npctl wrote
	if err := decoder.Decode(&f); err != nil {
		return File{}, fmt.Errorf("%w, written by npctl %s: %w; apply it with that version, or plan again",
			ErrFormat, text.Line(header.NpctlVersion), err)
	}
	return f, f.check()
}

// splitHeader returns the header and the body, or an error that names the actual kind of file.
func splitHeader(content []byte) (fileHeader, []byte, error) {
	line, body, _ := bytes.Cut(content, []byte("\n"))
	var header fileHeader
	if len(line) <= headerLimit && json.Unmarshal(line, &header) == nil && header.Kind == kind {
		return header, bytes.TrimSuffix(body, []byte("\n")), nil
	}
	switch {
	case len(content) == 0:
		return header, nil, fmt.Errorf("%w: it is empty; write one with npctl plan -out=FILE", ErrNotPlanFile)
	case bytes.HasPrefix(content, []byte(`{"format_version"`)):
		return header, nil, fmt.Errorf("%w: it is the output of -json; write a plan file with npctl plan -out=FILE", ErrNotPlanFile)
	default:
		return header, nil, fmt.Errorf("%w: it has no plan file header; write one with npctl plan -out=FILE", ErrNotPlanFile)
	}
}

func (h fileHeader) check(body []byte) error {
	sum := sha256.Sum256(body)
	switch {
	case h.Format != format:
		return fmt.Errorf("%w: npctl %s wrote it in format %d, and this npctl reads format %d: apply it with that version, or plan again",
			ErrFormat, text.Line(h.NpctlVersion), h.Format, format)
	case len(body) < h.Size:
		return fmt.Errorf("%w: %d of its %d bytes are missing, as after an interrupted copy; copy it again, or plan again", ErrDamaged, h.Size-len(body), h.Size)
	case len(body) != h.Size || hex.EncodeToString(sum[:]) != h.SHA256:
		return fmt.Errorf("%w: its content does not match its checksum, as after editing it; plan again with other options instead", ErrDamaged)
	default:
		return nil
	}
}

// check rejects content that no npctl would have written.
func (f File) check() error {
	lists := [][]plan.Step{f.Plan.Steps}
	if f.Change != nil {
		lists = append(lists, f.Change.Effect.Added, f.Change.Effect.Dropped, f.Change.Effect.Altered)
	}
	for _, steps := range lists {
		if s := plan.RestoreKinds(steps); s != nil {
			return fmt.Errorf("%w: step %q has the action %q of a %q, which this npctl does not support", ErrFormat, s.ID, s.Action, s.Thing)
		}
	}
	seen := make(map[string]bool, len(f.Plan.Steps))
	for i := range f.Plan.Steps {
		s := &f.Plan.Steps[i]
		if s.ID == "" || seen[s.ID] {
			return fmt.Errorf("%w: the step id %q is empty or occurs twice", ErrDamaged, s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}

// CheckInstallation returns nil if the plan was made for the installation.
func (f File) CheckInstallation(lineage string) error {
	if f.Meta.Lineage == lineage {
		return nil
	}
	return fmt.Errorf("the plan is for the installation %q, and this state belongs to %q: apply it where it was made, or plan again",
		text.Line(f.Meta.Lineage), text.Line(lineage))
}

// ConfigurationChange is the difference between a configuration and that of a plan.
type ConfigurationChange struct {
	// Blocks describes each block that differs, with its position. If it is empty, only sensitive values differ.
	Blocks []string
}

// CheckConfiguration returns nil if the plan was made with the configuration.
func (f File) CheckConfiguration(now resources.Desired) *ConfigurationChange {
	if now.Digests.Same(resources.Hash(f.Meta.Digest)) {
		return nil
	}
	change := &ConfigurationChange{}
	saved := map[string]resources.Block{}
	for _, b := range f.Blocks {
		saved[b.Address] = b
	}
	for _, b := range now.Blocks {
		was, known := saved[b.Address]
		delete(saved, b.Address)
		switch {
		case !known:
			change.Blocks = append(change.Blocks, blockText(b, "is new"))
		case was.Digest != b.Digest:
			change.Blocks = append(change.Blocks, blockText(b, "has changed"))
		}
	}
	for _, b := range f.Blocks {
		if _, gone := saved[b.Address]; gone {
			change.Blocks = append(change.Blocks, blockText(b, "was removed"))
		}
	}
	return change
}

func blockText(b resources.Block, what string) string {
	place := b.Source.String()
	if place != "" {
		place = " (" + place + ")"
	}
	return text.Line(b.Address) + text.Line(place) + " " + what
}
