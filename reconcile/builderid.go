package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// BuilderIDFile holds the id of the builder whose files are in the images directory. Nodepool's builder keeps its id in the
// same file, so that a host keeps its id when it moves from Nodepool to npctl or gets another name.
const BuilderIDFile = "builder_id.txt"

// BuilderID identifies the images directory among those of all builders that share a store. The id is created when it is
// first needed.
func (e *Engine) BuilderID() (string, error) {
	path := filepath.Join(e.imagesDir(), BuilderIDFile)
	id, err := readBuilderID(path)
	if errors.Is(err, fs.ErrNotExist) {
		id, err = createBuilderID(path)
	}
	if err != nil {
		return "", fmt.Errorf("id of this builder: %w", err)
	}
	return id, nil
}

func readBuilderID(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	id, err := uuid.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("%s: %w; delete the file to get a new id", path, err)
	}
	return id.String(), nil
}

// createBuilderID never shows another process a part of an id, and never replaces one.
func createBuilderID(path string) (id string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "."+BuilderIDFile+"-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(draft.Name()) //nolint:errcheck // a file that no program reads
	_, err = draft.WriteString(uuid.NewString())
	if err = errors.Join(err, draft.Close()); err != nil {
		return "", err
	}
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return readBuilderID(path)
}
