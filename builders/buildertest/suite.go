// Package buildertest is the test suite for the contract of package builders. Every builder has to pass it.
//
// Its shell script tool.sh replaces the tool of a builder: it creates images, fails, hangs, ignores SIGTERM, prints
// without end, and mounts file systems. A builder's test configures how to run the script in place of its tool:
//
//	buildertest.Run(t, buildertest.Harness{
//		New:     func() builders.Builder { return &exec.Builder{LogLimit: buildertest.LogLimit} },
//		Parse:   `output=$NPCTL_OUTPUT formats=$NPCTL_IMAGE_FORMATS`,
//		Config:  func(tool buildertest.Tool) cty.Value { … },
//		Formats: []string{"raw", "qcow2"},
//	})
package buildertest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/mounts"
	"github.com/npctl/npctl/internal/testutil"
)

// LogLimit is the log limit that the harness's builder must have, in bytes.
const LogLimit = 1 << 20

const patience = testutil.Patience

// Harness configures the suite for one builder.
type Harness struct {
	New func() builders.Builder
	// Parse is shell code before the tool's own: it sets $output, the path without extension, and $formats, separated
	// by blanks, from the builder's arguments or environment.
	Parse string
	// Config returns a builder block that runs `sh tool.Script tool.Mode`, with the variable TOOL_SECRET set to
	// tool.Secret as a sensitive value, and with tool.Grace between SIGTERM and SIGKILL.
	Config func(tool Tool) cty.Value
	// Formats the builder can make, at least one.
	Formats []string
	// Foreign is a format it cannot make.
	Foreign string
	// Prepare, if not nil, gives a job further requirements of its builder. output is the path without extension at
	// which the tool must create its files.
	Prepare func(t *testing.T, job *builders.Job, output string)
	// Elsewhere means that the tool runs on another machine, which ends with the build. The suite does not test its
	// processes and mounts there, nor how it is stopped.
	Elsewhere bool
}

// Tool is the tool that a builder block has to run.
type Tool struct {
	Script string
	Mode   string
	Secret string
	Grace  time.Duration
}

// secret contains characters that are special in shells, URLs and regular expressions.
const secret = `s3cr3t/p'a$$ "w0rd"+&x`

//go:embed tool.sh
var script string

type test struct {
	name string
	run  func(*testing.T, Harness)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if h.Elsewhere {
		h.run(t, elsewhere())
		return
	}
	results := []test{
		{"AttributesAreDocumented", documented},
		{"MakesTheFormatsItCan", makesFormats},
		{"MakesSomethingForAForeignFormat", makesSomething},
		{"TellsProgress", tellsProgress},
		{"WritesTheLog", writesLog},
		{"LimitsTheLog", limitsLog},
		{"FailureTellsTheLastLines", failureTellsLastLines},
		{"MissingFileIsAnError", missingFile},
		{"FileThatIsALinkIsAnError", linkedFile},
		{"WrongFormatIsAnError", wrongFormat},
		{"SecretsStayIn", secretsStayIn},
		{"FullDiskIsAnError", fullDisk},
		{"TwoBuildsAtOnce", twoBuilds},
	}
	h.run(t, append(results, stopping()...))
}

// elsewhere returns the tests that are valid without a local process.
func elsewhere() []test {
	return []test{
		{"AttributesAreDocumented", documented},
		{"MakesTheFormatsItCan", makesFormats},
		{"MakesSomethingForAForeignFormat", makesSomething},
		{"TellsProgress", tellsProgress},
		{"WritesTheLog", writesLog},
		{"LimitsTheLog", limitsLog},
		{"FailureTellsTheLastLines", failureTellsLastLines},
		{"WrongFormatIsAnError", wrongFormat},
		{"SecretsStayIn", secretsStayIn},
		{"TwoBuildsAtOnce", twoBuilds},
		{"EndedContextStartsNothing", endedContext},
		{"CancelLeavesNothing", cancelLeavesNothing},
		{"TimeoutLeavesNothing", timeoutLeavesNothing},
		{"ProcessesLeftBehindAreEnded", lingering},
	}
}

// RunStopping runs only the tests of stopping builds and of the cleanup after them.
func RunStopping(t *testing.T, h Harness) { h.run(t, stopping()) }

func stopping() []test {
	return []test{
		{"EndedContextStartsNothing", endedContext},
		{"CancelLeavesNothing", cancelLeavesNothing},
		{"TimeoutLeavesNothing", timeoutLeavesNothing},
		{"ToolThatIgnoresSIGTERMIsKilled", ignoresTerm},
		{"ToolMayCleanUpOnSIGTERM", cleansUp},
		{"ProcessesLeftBehindAreEnded", lingering},
		{"MountsAndLoopDevicesAreRemoved", mountsAreRemoved},
		{"SweepClearsUpAfterAKilledProcess", sweepAfterKill},
		{"SweepLeavesLivingBuildsAlone", sweepSparesLiving},
	}
}

func (h Harness) run(t *testing.T, tests []test) {
	if dir := os.Getenv(victimVariable); dir != "" {
		h.beVictim(t, dir)
		return
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { t.Parallel(); test.run(t, h) })
	}
}

// run is one build of a test.
type run struct {
	job      builders.Job
	log      *log
	artifact builders.Artifact
	err      error
	mu       sync.Mutex
	phases   []string // guarded by mu
}

// job prepares a build in which the tool runs in mode.
func (h Harness) job(t *testing.T, mode string) *run {
	t.Helper()
	images := t.TempDir()
	return h.jobIn(t, images, "img-0123456789abcdef0123456789abcdef", mode)
}

func (h Harness) jobIn(t *testing.T, images, name, mode string) *run {
	t.Helper()
	dir := filepath.Join(images, name)
	base := filepath.Join(images, "configuration")
	for _, d := range []string{dir, base} {
		testutil.Must(t, os.MkdirAll(d, 0o755))
	}
	// Before the directory is deleted with everything that a faulty builder left mounted in it.
	t.Cleanup(func() {
		if err := mounts.Clear(context.Background(), images); err != nil {
			t.Error(err)
		}
	})
	tool := filepath.Join(base, "tool.sh")
	testutil.Must(t, os.WriteFile(tool, []byte(strings.Replace(script, "# PARSE", h.Parse, 1)), 0o644))
	r := &run{log: &log{seen: make(chan struct{})}}
	r.job = builders.Job{
		Image: "img", BuildID: "0123456789abcdef0123456789abcdef", Name: name, Dir: dir, BaseDir: base, Formats: h.Formats,
		Config: h.Config(Tool{tool, mode, secret, 300 * time.Millisecond}),
		Progress: func(phase string, done, total int64) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.phases = append(r.phases, phase)
			if done < 0 || total < 0 || done > total {
				t.Errorf("progress %q is %d of %d", phase, done, total)
			}
		},
	}
	if h.Prepare != nil {
		h.Prepare(t, &r.job, filepath.Join(dir, name))
	}
	return r
}

// build runs the build to its end.
func (r *run) build(ctx context.Context, t *testing.T, b builders.Builder) *run {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the suite timed out"))
	defer cancel()
	r.artifact, r.err = b.Build(ctx, r.job, r.log)
	return r
}

// start runs the build in the background until the tool has started. The returned function waits for the end.
func (r *run) start(ctx context.Context, t *testing.T, b builders.Builder) (wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); r.build(ctx, t, b) }()
	select {
	case <-r.log.seen:
	case <-done:
		t.Fatalf("the build ended before its tool started: %v\n%s", r.err, r.log)
	case <-time.After(patience):
		t.Fatalf("the tool does not start; log:\n%s", r.log)
	}
	return func() {
		t.Helper()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatalf("the build does not end; log:\n%s", r.log)
		}
	}
}

// started is the line that the tool prints when it has reached the state for the test.
const started = "tool: started"

// log stores its input, and closes seen when the tool has started.
type log struct {
	mu    sync.Mutex
	text  bytes.Buffer // guarded by mu
	seen  chan struct{}
	found bool // guarded by mu
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.text.Write(p)
	if !l.found && bytes.Contains(l.text.Bytes(), []byte(started)) {
		l.found = true
		close(l.seen)
	}
	return n, err
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
