package zuul

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/process"
)

// tokenSource is the source of the API token. Tokens live for minutes, so it is read for each use.
type tokenSource struct {
	value   string
	file    string
	command []string
	dir     string // in which the command runs
	secrets []string
}

const (
	tokenLimit   = 64 << 10
	tokenTimeout = 30 * time.Second
)

func (s settings) tokenSource(baseDir string) (tokenSource, error) {
	t := tokenSource{value: s.Token, file: s.TokenFile, command: s.TokenCommand, dir: baseDir, secrets: s.secrets}
	written := 0
	for _, set := range []bool{t.value != "", t.file != "", len(t.command) > 0} {
		if set {
			written++
		}
	}
	if written > 1 {
		return tokenSource{}, errors.New("at most one of token, token_file and token_command may be set")
	}
	return t, nil
}

// get returns the current token, or "" if there is none.
func (t tokenSource) get(ctx context.Context) (string, error) {
	switch {
	case t.value != "":
		return clean("token", t.value)
	case t.file != "":
		text, err := host.ReadFile(t.file, tokenLimit)
		if err != nil {
			return "", fmt.Errorf("token_file: %w", err)
		}
		return clean("token_file "+t.file, string(text))
	case len(t.command) > 0:
		text, err := t.run(ctx)
		if err != nil {
			return "", fmt.Errorf("token_command: %w", err)
		}
		return clean("token_command", text)
	}
	return "", nil
}

// clean requires a single word and never shows it. It drops the word Bearer, which zuul-admin prints first, as in the
// header.
func clean(from, text string) (string, error) {
	token := strings.TrimSpace(text)
	if word, rest, ok := strings.Cut(token, " "); ok && strings.EqualFold(word, "Bearer") {
		token = strings.TrimSpace(rest)
	}
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if token == "" || strings.ContainsFunc(token, odd) {
		return "", fmt.Errorf("%s contains no token: it must be one word", from)
	}
	return token, nil
}

// run runs the command in the clean environment of builders. A plan runs it too, and the author of a proposed
// configuration change must not be able to read npctl's environment.
func (t tokenSource) run(ctx context.Context) (string, error) {
	ctx, cancel := process.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	var out, complaints limited
	command := exec.CommandContext(ctx, t.command[0], t.command[1:]...) //nolint:gosec // the command is from the configuration
	command.Dir, command.Stdout, command.Stderr = t.dir, &out, &complaints
	command.Env = process.BaseEnv(os.Environ())
	process.KillWithGroup(command)
	command.WaitDelay = time.Second
	err := command.Run()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case out.over:
		return "", fmt.Errorf("its output has more than %d bytes", tokenLimit)
	case err != nil:
		mask := process.NewMasker(append(slices.Clone(t.secrets), strings.Fields(out.text.String())...))
		said := strings.TrimSpace(complaints.text.String())
		return "", errors.New(mask.Text(strings.TrimSuffix(fmt.Sprintf("%q: %v: %s", t.command[0], err, lastLine(said)), ": ")))
	}
	return out.text.String(), nil
}

func lastLine(text string) string {
	line := text[strings.LastIndexByte(text, '\n')+1:]
	return line[:min(len(line), 300)]
}

// limited keeps the first tokenLimit bytes of its input.
type limited struct {
	text bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	space := tokenLimit - l.text.Len()
	l.over = l.over || len(p) > space
	l.text.Write(p[:min(len(p), space)])
	return len(p), nil
}

// tokens reads tokens from a source and keeps them all, to mask them in messages.
type tokens struct {
	source tokenSource
	mu     sync.Mutex
	all    []string // guarded by mu
}

func (t *tokens) get(ctx context.Context) (string, error) {
	token, err := t.source.get(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if token != "" && !slices.Contains(t.all, token) {
		t.all = append(t.all, token)
	}
	return token, err
}

func (t *tokens) returned() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}
