package external_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
)

// killable opens the place for a client whose program k kills: before it starts, or after it has ended, when its response is lost.
// changing is the pattern of the calls, the values of a variable, that change something. The program asks through a pipe, and npctl
// sees what it sees of a program that dies. A client that is dead itself has ended its context, which kills the program.
func (p *place) killable(t *testing.T, k *testutil.Killer, variable, changing string) drivers.Cloud {
	t.Helper()
	dir := t.TempDir()
	command := p.values["command"]
	defer func() { p.values["command"] = command }()
	inner := absolute(t, command.AsValueSlice()[0].AsString())
	p.values["command"] = list(script(t, fmt.Sprintf(`pass() {
	echo "$1 $%[1]s" >%[2]s/question
	read -r answer <%[2]s/answer
	[ "$answer" = live ] || exit 1
}
case $%[1]s in
%[3]s) ;;
*) exec %[4]s "$@" ;;
esac
pass before
response=$(%[4]s "$@") || exit
pass after
printf '%%s\n' "$response"`, variable, dir, changing, inner)))
	answerQuestions(t, k, dir)
	return p.mustOpen(t)
}

func answerQuestions(t *testing.T, k *testutil.Killer, dir string) {
	t.Helper()
	pipe := func(name string) *os.File {
		path := filepath.Join(dir, name)
		testutil.Must(t, syscall.Mkfifo(path, 0o600))
		f, err := os.OpenFile(path, os.O_RDWR, 0) // of both ends, so that no end of a program is the end of the pipe
		testutil.Must(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	questions, answers := pipe("question"), pipe("answer")
	go func() {
		for lines := bufio.NewScanner(questions); lines.Scan(); {
			answer := "live"
			if k.Pass(lines.Text()) != nil {
				answer = "die"
			}
			_, _ = fmt.Fprintln(answers, answer)
		}
	}()
}

// machinesIn returns the machines of a directory, which are files with this suffix.
func machinesIn(t *testing.T, root, suffix string) (all []string) {
	t.Helper()
	for _, file := range drivertest.FilesIn(t, root) {
		kind, rest, _ := strings.Cut(file, " ")
		name, _, _ := strings.Cut(rest, " ")
		if id, isMachine := strings.CutSuffix(name, suffix); isMachine && kind == "file" {
			all = append(all, "machine "+id)
		}
	}
	return all
}

// neighboursIn creates files of others with these contents by name. Those with the suffix are machines.
func neighboursIn(t *testing.T, root, suffix string, files map[string]string) (all []drivertest.Foreign) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		testutil.WriteFile(t, path, content)
		top, _, _ := strings.Cut(name, "/")
		foreign := drivertest.ForeignFile(t, filepath.Join(root, top))
		foreign.ID = strings.TrimSuffix(foreign.ID, suffix)
		all = append(all, foreign)
	}
	return all
}
