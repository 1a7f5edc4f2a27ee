package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan/planfile"
)

// baseConfiguration is the configuration before a change, with which -against compares the current one (the head).
type baseConfiguration struct {
	*config.Result
	against  string    // as given
	path     string    // that was read
	headPath string    // of the head
	copied   *checkout // path is in it; nil for a directory
	boundary string    // the directory that its files must be in; "" permits all
}

// readBoth reads the configuration, as loadAndWarn does, and beside it the base unless against is empty. If confined, it reads
// only files of their repositories. The caller must close the base, also after an error.
func (a *app) readBoth(ctx context.Context, against string, v variableOptions, confined bool) (*configuration, *baseConfiguration, error) {
	var opts config.Options
	if confined {
		opts.Boundary = repositoryOf(ctx, a.global.config)
	}
	if against == "" {
		head, err := a.readAndWarn(v, opts)
		return head, nil, err
	}
	base, loaded := &baseConfiguration{against: against, path: against, headPath: a.global.config}, make(chan error, 1)
	go func() { loaded <- base.load(ctx, a, v, confined) }()
	opts.Compare = true
	head, headErr := a.readAndWarn(v, opts)
	baseErr := <-loaded
	if headErr != nil {
		return nil, base, headErr
	}
	if broken, ok := errors.AsType[*diagnosed](baseErr); ok {
		a.diagnostics(broken)
		baseErr = hint(fmt.Errorf("the configuration in %s has errors, so the effect of the change is not known", against),
			"compare with a revision that npctl accepts")
	}
	return head, base, baseErr
}

// close removes the temporary copy of a revision.
func (b *baseConfiguration) close(a *app) {
	if b == nil || b.copied == nil {
		return
	}
	if err := os.RemoveAll(b.copied.dir); err != nil {
		a.log.Warn("a temporary directory could not be removed", "error", err)
	}
}

// load reads the configuration in a directory or file, or in a revision of the git repository that has the head.
func (b *baseConfiguration) load(ctx context.Context, a *app, v variableOptions, confined bool) error {
	if !exists(b.against) {
		var err error
		if b.copied, err = checkOut(ctx, b.against, b.headPath); err != nil {
			return fmt.Errorf("option -against: %w", err)
		}
		b.path = b.copied.path
	}
	if err := checkThere(b.path); err != nil {
		return fmt.Errorf("option -against=%s: %w", b.against, err)
	}
	opts := config.Options{Path: b.path, Compare: true, OtherVars: true}
	if b.copied != nil {
		opts.PathConfig = directoryOf(b.headPath)
	}
	switch {
	case confined && b.copied != nil:
		b.boundary = filepath.Join(b.copied.dir, "tree")
	case confined:
		b.boundary = repositoryOf(ctx, b.path)
	}
	opts.Boundary = b.boundary
	result, diags := config.Load(a.withSources(opts, newRegistry(), v))
	if b.Result = result; diags.HasErrors() {
		return &diagnosed{diags, result.Files}
	}
	return nil
}

// fileName returns the name of a file of the base as the head names the same file.
func (b *baseConfiguration) fileName(path string) string {
	below, err := filepath.Rel(directoryOf(b.path), path)
	if b.copied == nil || err != nil {
		return path
	}
	if info, err := os.Stat(b.headPath); err == nil && !info.IsDir() {
		return filepath.Join(filepath.Dir(b.headPath), below)
	}
	return filepath.Join(b.headPath, below)
}

// directoryOf returns the absolute directory of a configuration.
func directoryOf(path string) string {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		path = filepath.Dir(path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// repositoryOf returns the top of the git repository with a configuration, or the directory of the configuration without one.
func repositoryOf(ctx context.Context, path string) string {
	dir := directoryOf(path)
	if top, err := (git{ctx: ctx, dir: dir}).run("rev-parse", "--show-toplevel"); err == nil && top != "" {
		return top
	}
	return dir
}

// checkout is a temporary copy of a revision.
type checkout struct {
	dir    string // the temporary directory
	path   string // the path inside of it that was asked for
	top    string // the directory of the work tree
	commit string
}

// files returns the files of the configuration of the head that are in the work tree, by the given names.
func (c *checkout) files(ctx context.Context, names iter.Seq[string]) (map[string]planfile.ConfigurationFile, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // a directory has no changed files
	}
	out, err := git{ctx: ctx, dir: c.top}.run("diff", "--name-only", "-z", c.commit, "--")
	if err != nil {
		return nil, err
	}
	touched := map[string]bool{}
	for path := range strings.SplitSeq(out, "\x00") {
		touched[path] = true
	}
	all := map[string]planfile.ConfigurationFile{}
	for name := range names {
		full, err := filepath.Abs(name)
		if err == nil {
			full, err = filepath.EvalSymlinks(full)
		}
		if below, relErr := filepath.Rel(c.top, full); err == nil && relErr == nil && filepath.IsLocal(below) {
			path := filepath.ToSlash(below)
			all[name] = planfile.ConfigurationFile{Path: path, Touched: touched[path]}
		}
	}
	return all, nil
}

// checkoutTimeout bounds the checkout of a revision.
const checkoutTimeout = 10 * time.Minute

// checkOut copies a revision of the git repository that contains path to a temporary directory. It changes neither the work tree
// nor the index. The caller must remove the copy, also after an error.
func checkOut(ctx context.Context, revision, path string) (*checkout, error) {
	ctx, cancel := process.WithTimeout(ctx, checkoutTimeout)
	defer cancel()
	full, err := filepath.Abs(path)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	if err != nil {
		return nil, err
	}
	repository := git{ctx: ctx, dir: directoryOf(full)}
	top, err := repository.run("rev-parse", "--show-toplevel")
	if err != nil {
		return nil, hint(fmt.Errorf("%s is no directory, and git knows no revision of that name: %w", revision, err), "name a directory with another configuration, or a revision such as HEAD^1 in a git repository")
	}
	commit, err := repository.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil {
		return nil, hint(fmt.Errorf("%s is neither a directory nor a revision in %s", revision, top), "a shallow clone lacks earlier revisions: fetch them, for example with git fetch --depth=2")
	}
	below, err := filepath.Rel(top, full)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "npctl-base-")
	if err != nil {
		return nil, err
	}
	c := &checkout{dir: dir, path: filepath.Join(dir, "tree", below), top: top, commit: commit}
	repository.dir, repository.index = top, filepath.Join(dir, "index")
	if _, err = repository.run("read-tree", commit); err == nil {
		_, err = repository.run("checkout-index", "--all", "--quiet", "--prefix="+filepath.Join(dir, "tree")+"/")
	}
	return c, err
}

// git runs git in a directory.
type git struct {
	ctx   context.Context
	dir   string
	index string // index file; "" is that of the repository
}

// run returns the output of a git command without the last line break. It runs no hooks.
func (g git) run(args ...string) (string, error) {
	command := exec.CommandContext(g.ctx, "git", append([]string{"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false"}, args...)...)
	var out, complaints bytes.Buffer
	command.Dir, command.Stdout, command.Stderr = g.dir, &out, &complaints
	command.Env = slices.DeleteFunc(append(os.Environ(), "LC_ALL=C"), func(v string) bool { // a hook has them, for another directory
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}, name)
	})
	if g.index != "" {
		command.Env = append(command.Env, "GIT_INDEX_FILE="+g.index)
	}
	process.KillWithGroup(command)
	command.WaitDelay = time.Second
	switch err := command.Run(); {
	case g.ctx.Err() != nil:
		return "", context.Cause(g.ctx)
	case errors.Is(err, exec.ErrNotFound):
		return "", hint(errors.New("the program git is not installed"), "install it, or name a directory instead of a revision")
	case err != nil:
		return "", fmt.Errorf("git %s: %s", args[0], cmp.Or(text.Line(strings.TrimSpace(complaints.String())), err.Error()))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}
