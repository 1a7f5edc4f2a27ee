package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/npctl/npctl/resources"
)

// A plan file is two lines of JSON: a header that says what it is, and the plan. The header holds the length and the
// SHA-256 of the second line, so that a file that was cut short or edited is told from one that is whole. This guards
// against accidents; who may write the file may also make a new one, so keep it where only those who may apply can write.

// Errors of ReadFile that callers branch on.
var (
	// ErrNotPlanFile: the file is something else.
	ErrNotPlanFile = errors.New("not a plan file")
	// ErrPlanFormat: another npctl has written the file, in a format that this one does not read.
	ErrPlanFormat = errors.New("plan file of another format")
	// ErrPlanDamaged: the file has been cut short or edited.
	ErrPlanDamaged = errors.New("plan file is damaged")
)

// FileLimit is the most that ReadFile reads: about 300,000 steps.
const FileLimit = 256 << 20

const (
	fileKind        = "npctl plan"
	fileFormat      = 3
	fileHeaderLimit = 4 << 10
)

// File is a saved plan with all that applying it needs besides the configuration and the secrets.
type File struct {
	Meta Meta `json:"meta"`
	Plan Plan `json:"plan"`
	// Records are those that the steps rely on, by the subject of the fingerprint, to say later how they differ.
	Records map[string]Attributes `json:"records,omitempty"`
	// Blocks are those of the configuration that the plan was made with.
	Blocks []resources.Block `json:"blocks,omitempty"`
	// Variables are the values of the variables the plan was made with, without the sensitive ones.
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
	// Sensitive names the variables that have to be given again.
	Sensitive []string `json:"sensitive_variables,omitempty"`
}

type fileHeader struct {
	Kind         string `json:"kind"`
	Format       int    `json:"format"`
	NpctlVersion string `json:"npctl_version"`
	Size         int    `json:"size"`
	SHA256       string `json:"sha256"`
}

// WriteFile saves the plan so that only its owner can read it. An older file at path is replaced, whole or not at all.
func (f File) WriteFile(path string) error {
	content, err := f.encode()
	if err != nil {
		return fmt.Errorf("save plan to %s: %w", path, err)
	}
	pending, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(0o600),
		renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("save plan: %w", err)
	}
	defer pending.Cleanup() //nolint:errcheck // nothing is left to clean up after success
	if _, err := pending.Write(content); err != nil {
		return fmt.Errorf("save plan to %s: %w", path, err)
	}
	if err := pending.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("save plan to %s: %w", path, err)
	}
	return nil
}

func (f File) encode() ([]byte, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	header, err := json.Marshal(fileHeaderFor(body, f.Meta.NpctlVersion))
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(header)+len(body)+2)
	out = append(append(out, header...), '\n')
	out = append(append(out, body...), '\n')
	if len(out) > FileLimit {
		return nil, fmt.Errorf("the plan takes %d MiB and a plan file may have %d: narrow it with -target", len(out)>>20, FileLimit>>20)
	}
	return out, nil
}

func fileHeaderFor(body []byte, version string) fileHeader {
	sum := sha256.Sum256(body)
	return fileHeader{Kind: fileKind, Format: fileFormat, NpctlVersion: version, Size: len(body), SHA256: hex.EncodeToString(sum[:])}
}

// ReadFile reads a saved plan. What is no plan file, is of another format or was damaged is refused with one of the
// errors above.
func ReadFile(path string) (File, error) {
	content, err := fileContent(path)
	if err != nil {
		return File{}, err
	}
	f, err := fileDecode(content)
	if err != nil {
		return File{}, fmt.Errorf("plan file %s: %w", path, err)
	}
	return f, nil
}

// fileContent reads a regular file: opening a pipe could wait for ever.
func fileContent(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open plan file: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("plan file %s: %w: it is no regular file", path, ErrNotPlanFile)
	case info.Size() > FileLimit:
		return nil, fmt.Errorf("plan file %s: %w: it has %d MiB, and at most %d are read", path, ErrNotPlanFile, info.Size()>>20, FileLimit>>20)
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open plan file: %w", err)
	}
	defer in.Close() //nolint:errcheck // only read
	content := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := content.ReadFrom(io.LimitReader(in, FileLimit)); err != nil {
		return nil, fmt.Errorf("read plan file %s: %w", path, err)
	}
	return content.Bytes(), nil
}

func fileDecode(content []byte) (File, error) {
	header, body, err := fileSplit(content)
	if err != nil {
		return File{}, err
	}
	if err := header.check(body); err != nil {
		return File{}, err
	}
	var f File
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields() // a step must not lose a part that a newer npctl wrote into it
	if err := decoder.Decode(&f); err != nil {
		return File{}, fmt.Errorf("%w, written by npctl %s: %w; apply it with that version, or plan again",
			ErrPlanFormat, renderSafe(header.NpctlVersion), err)
	}
	return f, f.check()
}

// fileSplit finds the header, or says what the file is instead.
func fileSplit(content []byte) (fileHeader, []byte, error) {
	line, body, _ := bytes.Cut(content, []byte("\n"))
	var header fileHeader
	if len(line) <= fileHeaderLimit && json.Unmarshal(line, &header) == nil && header.Kind == fileKind {
		return header, bytes.TrimSuffix(body, []byte("\n")), nil
	}
	switch {
	case len(content) == 0:
		return header, nil, fmt.Errorf("%w: it is empty; write one with npctl plan -out=FILE", ErrNotPlanFile)
	case bytes.HasPrefix(content, []byte(`{"format_version"`)):
		return header, nil, fmt.Errorf("%w: it is the output of -json; write a plan file with npctl plan -out=FILE", ErrNotPlanFile)
	default:
		return header, nil, fmt.Errorf("%w: it does not begin like one; write one with npctl plan -out=FILE", ErrNotPlanFile)
	}
}

func (h fileHeader) check(body []byte) error {
	sum := sha256.Sum256(body)
	switch {
	case h.Format != fileFormat:
		return fmt.Errorf("%w: npctl %s wrote it in format %d, and this npctl reads format %d: apply it with that version, or plan again",
			ErrPlanFormat, renderSafe(h.NpctlVersion), h.Format, fileFormat)
	case len(body) < h.Size:
		return fmt.Errorf("%w: %d of its %d bytes are missing, as after an interrupted copy; copy it again, or plan again", ErrPlanDamaged, h.Size-len(body), h.Size)
	case len(body) != h.Size || hex.EncodeToString(sum[:]) != h.SHA256:
		return fmt.Errorf("%w: its content does not match its checksum, as after editing it; plan again with other options instead", ErrPlanDamaged)
	default:
		return nil
	}
}

// check finds what no npctl would have written.
func (f File) check() error {
	seen := make(map[string]bool, len(f.Plan.Steps))
	for i := range f.Plan.Steps {
		s := &f.Plan.Steps[i]
		if reportActions[s.Action] == nil {
			return fmt.Errorf("%w: step %q does %q, which this npctl does not know", ErrPlanFormat, s.ID, s.Action)
		}
		if s.ID == "" || seen[s.ID] {
			return fmt.Errorf("%w: the step id %q is empty or occurs twice", ErrPlanDamaged, s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}

// CheckInstallation returns nil when the plan was made for the installation.
func (f File) CheckInstallation(lineage string) error {
	if f.Meta.Lineage == lineage {
		return nil
	}
	return fmt.Errorf("the plan is for the installation %q, and this state belongs to %q: apply it where it was made, or plan again",
		renderSafe(f.Meta.Lineage), renderSafe(lineage))
}

// ConfigurationChange is how a configuration differs from the one that a plan was made with.
type ConfigurationChange struct {
	// Blocks says what became of each block that differs, with its place. When it is empty, only sensitive values differ.
	Blocks []string
}

// CheckConfiguration returns nil when the plan was made with the configuration.
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
	return renderSafe(b.Address) + renderSafe(place) + " " + what
}
