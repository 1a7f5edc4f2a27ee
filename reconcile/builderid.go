package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/npctl/npctl/plan"
)

// BuilderIDFile is the file in the images directory that holds the ID of its builder. Nodepool's builder keeps its ID
// in a file of this name, so a host keeps its ID when it moves from Nodepool to npctl or gets another name.
const BuilderIDFile = "builder_id.txt"

// BuilderID returns the ID of the images directory among the builders that share a store. It creates the ID on first
// use.
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

// addBuilders adds the ID of this builder, without creating one, and the IDs of the other registered builders.
func (e *Engine) addBuilders(seen *plan.Observed, registered []string) {
	seen.BuilderID, seen.OtherBuilders = "", map[string]bool{}
	if id, err := readBuilderID(filepath.Join(e.imagesDir(), BuilderIDFile)); err == nil {
		seen.BuilderID = id
	}
	for _, id := range registered {
		if id != seen.BuilderID {
			seen.OtherBuilders[id] = true
		}
	}
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

// createBuilderID never shows a partial ID to another process and never replaces an existing one.
func createBuilderID(path string) (id string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "."+BuilderIDFile+"-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(draft.Name()) //nolint:errcheck // no program reads the file
	_, err = draft.WriteString(uuid.NewString())
	if err = errors.Join(err, draft.Close()); err != nil {
		return "", err
	}
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return readBuilderID(path)
}
