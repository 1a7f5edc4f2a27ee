package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// stateLock is the name of the lock that everybody takes who changes the state.
const stateLock = "state"

// statePath says where the state of a configuration is: -state wins, then the state block, relative to the
// configuration, then the default beside the configuration.
func (a *app) statePath(s resources.Settings) (string, error) {
	if a.global.state != "" {
		return filepath.Abs(a.global.state)
	}
	if s.State.Kind != "" && s.State.Kind != stateBolt {
		return "", fmt.Errorf("this npctl has no state %q", s.State.Kind)
	}
	path := bolt.DefaultPath
	if v := s.State.Config; v != cty.NilVal && !v.IsNull() && v.Type().HasAttribute("path") {
		if p := v.GetAttr("path"); !p.IsNull() && p.IsKnown() && !p.IsMarked() {
			path = p.AsString()
		}
	}
	if filepath.IsAbs(path) {
		return path, nil
	}
	return filepath.Join(s.Dir, path), nil
}

// findState says where the state is for commands that need nothing else of the configuration: they should work, and
// fast, whatever is wrong with it.
func (a *app) findState() (string, error) {
	if a.global.state != "" {
		return filepath.Abs(a.global.state)
	}
	if path, ok := plainStatePath(a.global.config); ok {
		return filepath.Abs(path)
	}
	c, err := a.load(variableOptions{})
	if err != nil {
		return "", err
	}
	return a.statePath(c.Desired.Settings)
}

// plainStatePath looks for the state block without evaluating anything. It is not ok when the path is not written
// plainly, or when the files cannot be understood.
func plainStatePath(config string) (string, bool) {
	info, err := os.Stat(config)
	if err != nil {
		return "", false
	}
	files, dir := []string{config}, filepath.Dir(config)
	if info.IsDir() {
		dir = config
		if files, err = filepath.Glob(filepath.Join(config, "*.hcl")); err != nil {
			return "", false
		}
	}
	path := bolt.DefaultPath
	for _, file := range files {
		found, ok := plainStateIn(file)
		if !ok {
			return "", false
		}
		if found != "" {
			path = found
		}
	}
	if filepath.IsAbs(path) {
		return path, true
	}
	return filepath.Join(dir, path), true
}

// plainStateLimit is how much of a file is looked at for a state block.
const plainStateLimit = 1 << 20

func plainStateIn(file string) (path string, ok bool) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > plainStateLimit {
		return "", false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	if !bytes.Contains(text, []byte("npctl")) || !bytes.Contains(text, []byte("state")) {
		return "", true
	}
	if bytes.Count(text, []byte("{")) > 10_000 { // nesting is for config to judge
		return "", false
	}
	parsed, diags := hclsyntax.ParseConfig(text, file, hcl.InitialPos)
	if diags.HasErrors() {
		return "", false
	}
	for _, block := range parsed.Body.(*hclsyntax.Body).Blocks {
		if block.Type != "npctl" {
			continue
		}
		for _, inner := range block.Body.Blocks {
			if inner.Type == "state" {
				return plainPath(inner)
			}
		}
	}
	return "", true
}

func plainPath(block *hclsyntax.Block) (string, bool) {
	attr := block.Body.Attributes["path"]
	if !slices.Equal(block.Labels, []string{stateBolt}) {
		return "", false
	}
	if attr == nil {
		return "", true
	}
	value, diags := attr.Expr.Value(nil)
	if diags.HasErrors() || value.Type() != cty.String || value.IsNull() || value.AsString() == "" {
		return "", false
	}
	return value.AsString(), true
}

// openFile opens the file of the state to read or to write it, whoever else does.
func (a *app) openFile(path string, readOnly bool) (stateStore, error) {
	return bolt.Open(bolt.Options{Path: path, Version: version(), ReadOnly: readOnly, Log: a.log})
}

// openExisting opens the state and says so when there is none.
func (a *app) openExisting(path string, readOnly bool) (stateStore, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, hint(fmt.Errorf("there is no state at %s", path), "npctl apply makes it; -state or -config name another place")
	}
	return a.openState(path, readOnly)
}

// dataDir is where drivers keep files of their own: beside the state, in .npctl.
func dataDir(statePath string) string {
	dir := filepath.Dir(statePath)
	if filepath.Base(dir) != ".npctl" {
		dir = filepath.Join(dir, ".npctl")
	}
	return filepath.Join(dir, "providers")
}

// lockEvery is how often a lock that somebody else holds is tried again.
const lockEvery = 250 * time.Millisecond

// lock takes the state for an operation, waiting for whoever has it as long as asked to.
func (a *app) lock(ctx context.Context, store state.Store, operation string, wait time.Duration) (state.Lock, error) {
	deadline := time.Now().Add(wait)
	told := false
	for {
		lock, err := store.Lock(ctx, stateLock, state.Holder{Operation: operation})
		var other *state.LockedError
		if err == nil || !errors.As(err, &other) || !time.Now().Before(deadline) {
			return lock, err
		}
		if !told {
			a.ui.talk("Waiting for the lock of the state: %s.", visible(strings.TrimPrefix(other.Error(), "lock state is ")))
			told = true
		}
		select {
		case <-time.After(min(lockEvery, time.Until(deadline))):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
