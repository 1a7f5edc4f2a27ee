package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/process"
)

// maxScript is the maximum size of a script in bytes. A script has to download larger files.
const maxScript = 4 << 20

// script is the script that runs on the instance.
type script struct {
	file        string // absolute; or
	inline      string
	interpreter string
}

func (s script) name() string {
	if s.file == "" {
		return "inline script"
	}
	return filepath.Base(s.file)
}

func (s script) read() ([]byte, error) {
	if s.file == "" {
		return []byte(s.inline), nil
	}
	text, err := readFile(s.file, maxScript)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	return text, nil
}

func readFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // the file is only read
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

// remote is the shell program that receives the script on its standard input. The variables come first, %d bytes of
// them, so that their values are in no command line and no file; dd reads exactly that many. The script itself is
// stored in a file, in memory where possible, so that a command of the script that reads its standard input does not
// consume the rest.
const remote = `set -u
old=$(umask)
umask 077
vars=$(dd bs=1 count=%d 2>/dev/null) || exit 125
eval "$vars"
unset vars
file=
for dir in /dev/shm "/run/user/$(id -u)" "${TMPDIR:-/tmp}"; do
	file=$(mktemp "$dir/npctl-script.XXXXXX" 2>/dev/null) && break
done
[ -n "$file" ] || { echo "npctl: no directory of this instance is writable for the script" >&2; exit 125; }
trap 'rm -f "$file"' EXIT
cat >"$file" || exit 125
umask "$old"
%s "$file" </dev/null
`

// prepare returns the command to run and its input.
func prepare(s script, env map[string]string) (command string, stdin []byte, err error) {
	text, err := s.read()
	if err != nil {
		return "", nil, err
	}
	var variables bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&variables, "export %s=%s\n", name, quote(env[name]))
	}
	program := fmt.Sprintf(remote, variables.Len(), s.interpreter)
	return "exec /bin/sh -c " + quote(program), append(variables.Bytes(), text...), nil
}

// quote returns text as one word for a POSIX shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// variables returns the environment of the script.
func (b *build) variables() map[string]string {
	env := map[string]string{}
	maps.Copy(env, b.Env)
	maps.Copy(env, b.SecretEnv)
	env["NPCTL_IMAGE_NAME"], env["NPCTL_BUILD_ID"] = b.job.Image, b.job.BuildID
	return env
}

// runScript runs the script and waits for its end.
func (b *build) runScript(ctx context.Context, c *connection) error {
	command, stdin, err := prepare(b.script, b.variables())
	if err != nil {
		return err
	}
	b.report("running "+b.mask.Text(b.script.name()), 0, 0)
	b.logf("running %s with %s as %s on %s", b.script.name(), b.script.interpreter, c.user, c.address)
	transcript := process.NewTranscript(process.Spec{Log: b.log, LogLimit: b.logLimit, Secrets: b.secrets, Line: b.parseProgress})
	status, err := c.run(ctx, command, bytes.NewReader(stdin), transcript)
	name := "the " + b.script.name()
	if b.script.file != "" {
		name = b.script.name()
	}
	switch {
	case ctx.Err() != nil:
		err = &process.StoppedError{Program: name, Cause: context.Cause(ctx), Tail: transcript.Tail()}
	case err != nil:
		err = lost(name, err, transcript.Tail())
	case status.code != 0 || status.signal != 0:
		err = &process.ExitError{Program: name, Code: status.code, Signal: status.signal, Tail: transcript.Tail()}
	}
	transcript.End(err)
	return err
}

func lost(name string, err error, tail []string) error {
	err = fmt.Errorf("the connection was lost while %s ran: %w", name, err)
	if len(tail) > 0 {
		err = errors.Join(err, errors.New("the last lines of its output:\n    "+strings.Join(tail, "\n    ")))
	}
	return err
}

// parseProgress reports progress from lines of output, as in builder "exec".
func (b *build) parseProgress(line string) {
	if phase, done, total, ok := process.ParseProgress(line); ok {
		b.report(phase, done, total)
	}
}
