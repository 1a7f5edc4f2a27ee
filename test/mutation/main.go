// Package main checks the test suite by mutation: it changes one place of the production code of plan, reconcile,
// drivers or state, runs the tests that should fail, and reports which test does. The tree stays as it is; each mutant
// reaches the compiler through an overlay.
//
//	go run ./test/mutation -seed 21 -n 20                     draw 20 mutations and list them
//	go run ./test/mutation -seed 21 -n 20 -run                draw and run them
//	go run ./test/mutation -ownership -run                    run all that take an object of others for npctl's: those of
//	                                                          aws and kubernetes with their services, as root
//	go run ./test/mutation -from LIST [-only N] -run          run those of a list (or only its Nth)
//
// Every 20 mutations hold 6 of plan, 6 of reconcile, 5 of drivers and 3 of state (with state/bolt). A longer list
// begins with the shorter one of the same seed. A mutation that does not compile is replaced by the next one of its
// group. A draw depends on the whole tree, so a list that a later tree has to answer is kept in a file:
// testdata/seed21.txt is one, and testdata/seed21.results.txt has its results.
//
// A line is "file:line: operator function#ordinal: before → after". The package, the function, the operator and the
// text find the place again after other code changed; the ordinal decides between equal texts of one function. With
// -run a line of results follows: its number, "killed by package test", "survived", "does not compile" or "no longer
// there", the seconds, and the mutation, separated by tabs. The program exits with 1 unless all are killed.
//
// Not mutated, because no test of behaviour could object: logs, String and Error methods, functions that return one
// string, and calls of Lock and Unlock, which belong to the race detector.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	seed := flag.Uint64("seed", 21, "draw by this seed")
	number := flag.Int("n", 20, "draw this many mutations")
	from := flag.String("from", "", "read the mutations from this file instead of drawing them")
	ownership := flag.Bool("ownership", false, "take every check of the owner of an object, instead of drawing")
	only := flag.Int("only", 0, "take only the mutation with this number, counted from 1")
	run := flag.Bool("run", false, "run the tests against each mutation")
	timeout := flag.Duration("timeout", 10*time.Minute, "limit for the tests of one package")
	flag.Parse()
	ok, err := check(*seed, *number, *ownership, *from, *only, *run, *timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// check lists or runs the mutations and reports whether all of them were killed.
func check(seed uint64, number int, ours bool, from string, only int, run bool, timeout time.Duration) (bool, error) {
	scratch, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	b := bench{scratch: scratch, timeout: timeout}
	if b.root, err = moduleRoot(); err != nil {
		return false, err
	}
	sites, err := readGroups(b.root)
	if err != nil {
		return false, err
	}
	var lines []string
	switch {
	case ours:
		lines = ownership(sites)
	case from != "":
		lines, err = readList(from)
	default:
		lines, err = b.draw(sites, seed, number)
	}
	if err != nil {
		return false, err
	}
	if only > len(lines) {
		return false, fmt.Errorf("-only %d: there are %d mutations", only, len(lines))
	}
	all := true
	for i, line := range lines {
		if only != 0 && only != i+1 {
			continue
		}
		if !run {
			fmt.Println(line)
			continue
		}
		start := time.Now()
		result := b.result(sites, line)
		all = all && strings.HasPrefix(result, "killed")
		fmt.Printf("%d\t%s\t%.0f\t%s\n", i+1, result, time.Since(start).Seconds(), line)
	}
	return all, nil
}

// moduleRoot returns the directory of go.mod at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod at or above the working directory")
		}
	}
	return "", err
}

// readList returns the lines of a list; empty lines and those with # are comments.
func readList(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		if line := strings.TrimSpace(scanner.Text()); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, scanner.Err()
}

// bench compiles and tests mutants.
type bench struct {
	root, scratch string
	timeout       time.Duration
}

// draw returns number mutations that compile.
func (b bench) draw(sites map[string][]mutation, seed uint64, number int) ([]string, error) {
	var lines []string
	shuffled := shuffle(sites, seed)
	for i := range number {
		group := pattern[i%len(pattern)]
		for {
			rest := shuffled[group]
			if len(rest) == 0 {
				return nil, fmt.Errorf("group %s has no more mutations", group)
			}
			shuffled[group] = rest[1:]
			if err := b.compile(rest[0]); err == nil {
				lines = append(lines, rest[0].String())
				break
			}
		}
	}
	return lines, nil
}

// result runs the tests against the mutation of a line.
func (b bench) result(sites map[string][]mutation, line string) string {
	m, found := find(sites, line)
	if !found {
		return "no longer there"
	}
	if err := b.compile(m); err != nil {
		return "does not compile"
	}
	goTest := []string{"go", "test", "-p=1", "-vet=off", "-failfast", "-timeout=" + b.timeout.String()}
	for _, packages := range m.tests() {
		if out, err := b.command(m, slices.Concat(goTest, packages)...); err != nil {
			return "killed by " + killer(out)
		}
	}
	if script := m.service(); script != nil {
		if out, err := b.command(m, append(script, "-failfast")...); err != nil {
			return "killed by " + killer(out)
		}
	}
	return "survived"
}

func (b bench) compile(m mutation) error {
	_, err := b.command(m, "go", "build", "./"+path.Dir(m.file))
	return err
}

// command runs a command with an overlay of the mutation for go. The overlay is in GOFLAGS, so that tests that build npctl
// themselves build the mutant.
func (b bench) command(m mutation, arguments ...string) (string, error) {
	mutant := filepath.Join(b.scratch, "mutant.go")
	if err := os.WriteFile(mutant, m.mutant(), 0o600); err != nil {
		return "", err
	}
	overlay := filepath.Join(b.scratch, "overlay.json")
	text := fmt.Sprintf(`{"Replace": {%q: %q}}`, filepath.Join(b.root, m.file), mutant)
	if err := os.WriteFile(overlay, []byte(text), 0o600); err != nil {
		return "", err
	}
	command := exec.CommandContext(context.Background(), arguments[0], arguments[1:]...)
	command.Dir = b.root
	command.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	out, err := command.CombinedOutput()
	return string(out), err
}

// killer returns the package and the test that failed first, with its innermost subtest, or the first line of a panic.
func killer(out string) string {
	var test, panicked, failed string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			if test == "" || strings.HasPrefix(name, test+"/") {
				test = name
			}
		}
		if panicked == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
			panicked = line
		}
		if rest, ok := strings.CutPrefix(line, "FAIL\t"); ok && failed == "" {
			failed, _, _ = strings.Cut(rest, "\t")
			failed, _, _ = strings.Cut(failed, " ")
			failed = strings.TrimPrefix(failed, "github.com/npctl/npctl/")
		}
	}
	return failed + " " + cmp.Or(test, panicked, "(no test named)")
}
