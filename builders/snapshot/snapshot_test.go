package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/builders/snapshot"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/sshserver"
)

// makesDisk is a script that succeeds.
const makesDisk = `echo made > "$TOOL_OUTPUT.raw"`

// trial is one build on a borrowed machine.
type trial struct {
	*machine
	job builders.Job
	log testutil.Buffer
}

func newTrial(t *testing.T, written map[string]cty.Value) *trial {
	t.Helper()
	m, key := newMachine(t)
	values := map[string]cty.Value{"inline": cty.StringVal(makesDisk), "private_key_file": cty.StringVal(key), "connect_timeout": cty.StringVal("20s")}
	for name, value := range written {
		values[name] = value
	}
	return &trial{machine: m, job: builders.Job{
		Image: "golden", BuildID: "b1", Name: "golden-b1", Dir: t.TempDir(), BaseDir: t.TempDir(), Formats: []string{"qcow2"},
		Config: config(values), Instances: m,
	}}
}

func (tr *trial) build(ctx context.Context) (builders.Artifact, error) {
	return new(snapshot.Builder).Build(ctx, tr.job, &tr.log)
}

func (tr *trial) mustFail(t *testing.T, want ...string) {
	t.Helper()
	made, err := tr.build(t.Context())
	if err == nil {
		t.Fatalf("the build made %v, want an error; log:\n%s", made, &tr.log)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error is %q, want %q in it; log:\n%s", err, text, &tr.log)
		}
	}
	tr.leftNothing(t)
}

// leftNothing checks that a booted machine was deleted, once and last, and that the directory is empty.
func (tr *trial) leftNothing(t *testing.T) {
	t.Helper()
	noted := tr.noted()
	if booted := slices.Contains(noted, "boot") && tr.bootErr == nil; booted && (noted[len(noted)-1] != "close" || slices.Index(noted, "close") != len(noted)-1) {
		t.Errorf("the machine saw %q, want it closed at the end", noted)
	}
	if entries, err := os.ReadDir(tr.job.Dir); err != nil || len(entries) > 0 {
		t.Errorf("in the directory there is %v, %v", entries, err)
	}
}

func text(s string) cty.Value { return cty.StringVal(s) }

func TestImageOfAMachineIsMade(t *testing.T) {
	tr := newTrial(t, map[string]cty.Value{"pool": text("main")})
	var phases []string
	tr.job.Progress = func(phase string, _, _ int64) { phases = append(phases, phase) }
	made, err := tr.build(t.Context())
	if err != nil {
		t.Fatalf("%v\n%s", err, &tr.log)
	}
	path := filepath.Join(tr.job.Dir, "golden-b1.raw")
	if diff := cmp.Diff(builders.Artifact{Files: []builders.File{{Format: "raw", Path: path}}}, made); diff != "" {
		t.Errorf("artifact (-want +got):\n%s", diff)
	}
	if disk, err := os.ReadFile(path); err != nil || string(disk) != "made\n" {
		t.Errorf("image holds %q, %v", disk, err)
	}
	if diff := cmp.Diff([]string{"boot", "command", "shutdown", "capture", "close"}, tr.noted()); diff != "" {
		t.Errorf("the machine saw (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([3]string{"cloud", "main", "base"}, tr.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	at := fmt.Sprintf("127.0.0.1:%d", tr.login.ConnectionPort)
	want := []string{"booting an instance", "waiting for SSH at " + at, "running inline script", "shutting the instance down", "creating a snapshot", "downloading", "deleting the instance"}
	if diff := cmp.Diff(want, phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	wantLog := "npctl: booting an instance of label base in provider cloud\nnpctl: waiting for SSH at " + at + " as debian\n" +
		"npctl: logged in; its host key is unknown, so npctl trusts the first one: ssh-ed25519 " + ssh.FingerprintSHA256(tr.key.PublicKey()) + "\n" +
		"npctl: running inline script with /bin/sh -e as debian on " + at + "\nExit code: 0\n" +
		"npctl: shutting the instance down\nnpctl: the instance has closed the connection\nnpctl: creating a snapshot of the instance\n"
	if diff := cmp.Diff(wantLog, tr.log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestScriptFindsItsSurroundings(t *testing.T) {
	tr := newTrial(t, map[string]cty.Value{
		"inline": cty.NullVal(cty.String), "script": text("setup.sh"), "interpreter": text("/bin/sh -eu"),
		"env":        cty.MapVal(map[string]cty.Value{"QUOTED": text("it's\n$HOME \"x\""), "EMPTY": text("")}),
		"secret_env": cty.MapVal(map[string]cty.Value{"TOKEN": text("hunter2'$x")}),
	})
	// cat would consume the rest of a script that a shell reads from its standard input.
	testutil.WriteFile(t, filepath.Join(tr.job.BaseDir, "setup.sh"), `cat
printf '%s|%s|%s|%s\n' "$QUOTED" "$EMPTY" "$NPCTL_IMAGE_NAME" "$NPCTL_BUILD_ID"
umask
case "$0" in *npctl-script.*) ;; *) exit 9 ;; esac
ls -l "$0" | cut -c1-10
echo "$0" > "$TOOL_OUTPUT.name"
test "$TOKEN" = "hunter2'"'$x'
tr '\0' '\n' < /proc/$PPID/cmdline | grep hunter && exit 8
echo "token is $TOKEN"
`+makesDisk)
	if _, err := tr.build(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &tr.log)
	}
	_, got, _ := strings.Cut(tr.log.String(), "/bin/sh -eu as debian")
	_, got, _ = strings.Cut(got, "\n")
	got, _, _ = strings.Cut(got, "npctl:")
	want := "it's\n$HOME \"x\"||golden|b1\n0022\n-rw-------\ntoken is (sensitive)\nExit code: 0\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	name, err := os.ReadFile(tr.output + ".name")
	testutil.Must(t, err)
	if _, err := os.Stat(strings.TrimSpace(string(name))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the script stays on the machine: %v", err)
	}
}

func TestScriptOfAnotherLanguage(t *testing.T) {
	tr := newTrial(t, map[string]cty.Value{"interpreter": text("awk -f"), "inline": text(`BEGIN { print "made" > ENVIRON["TOOL_OUTPUT"] ".raw" }`)})
	if _, err := tr.build(t.Context()); err != nil {
		t.Errorf("%v\n%s", err, &tr.log)
	}
}

func TestErrorOfAFailedScriptHasItsLastLines(t *testing.T) {
	tr := newTrial(t, map[string]cty.Value{"inline": text("echo no such package >&2\nfalse\n" + makesDisk)})
	tr.mustFail(t, "the inline script ended with exit code 1", "no such package")
	if slices.Contains(tr.noted(), "capture") {
		t.Error("an image was made of a machine whose script failed")
	}
}

func TestScriptEndedByASignal(t *testing.T) {
	tr := newTrial(t, nil)
	tr.run = func(_ context.Context, c sshserver.Command) (int, bool) {
		return sshserver.EndedByTERM, true
	}
	tr.mustFail(t, "the inline script was terminated by signal 15")
}

func TestBackgroundProcessOfAScriptDoesNotBlock(t *testing.T) {
	tr := newTrial(t, nil)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	tr.run = func(_ context.Context, c sshserver.Command) (int, bool) {
		_, _ = io.Copy(io.Discard, c.Stdin)
		testutil.WriteFile(t, tr.output+".raw", "made")
		c.Exit(0) // while a daemon still holds the output
		<-release
		return 0, true
	}
	tr.stop = func() {}
	if _, err := tr.build(t.Context()); err != nil {
		t.Errorf("%v\n%s", err, &tr.log)
	}
}

func TestConnectionThatBreaksIsAnError(t *testing.T) {
	tr := newTrial(t, nil)
	tr.run = func(_ context.Context, c sshserver.Command) (int, bool) {
		fmt.Fprintln(c.Stdout, "half of it is done")
		return sshserver.HangUp, true
	}
	tr.mustFail(t, "the connection was lost while the inline script ran", "half of it is done")
}

func TestMachineThatStaysUpIsSnapshottedAllTheSame(t *testing.T) {
	for name, test := range map[string]struct {
		written map[string]cty.Value
		want    string
	}{
		"not asked to":  {map[string]cty.Value{"shutdown": cty.False}, ""},
		"command fails": {map[string]cty.Value{"shutdown_command": text("echo cannot; exit 3")}, "cannot\nnpctl: shutdown_command ended with exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t, test.written)
			if _, err := tr.build(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, &tr.log)
			}
			if !strings.Contains(tr.log.String(), test.want) || slices.Contains(tr.noted(), "shutdown") {
				t.Errorf("machine saw %q; log:\n%s\nwant %q in it", tr.noted(), &tr.log, test.want)
			}
		})
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	broken := errors.New("the cloud is on fire")
	t.Run("boot", func(t *testing.T) {
		tr := newTrial(t, nil)
		tr.bootErr = broken
		tr.mustFail(t, "boot an instance of label base in provider cloud: the cloud is on fire")
		if diff := cmp.Diff([]string{"boot"}, tr.noted()); diff != "" {
			t.Errorf("the machine saw (-want +got):\n%s", diff)
		}
	})
	t.Run("capture", func(t *testing.T) {
		tr := newTrial(t, nil)
		tr.captureErr = broken
		tr.mustFail(t, "snapshot of the instance: the cloud is on fire")
	})
	t.Run("close after a failure", func(t *testing.T) {
		tr := newTrial(t, nil)
		tr.captureErr, tr.closeErr = broken, errors.New("quota of deletions")
		tr.mustFail(t, "the cloud is on fire", "delete the instance: quota of deletions")
	})
	t.Run("close alone", func(t *testing.T) {
		tr := newTrial(t, nil)
		tr.closeErr = broken
		if _, err := tr.build(t.Context()); err != nil {
			t.Errorf("an image that is there was thrown away: %v", err)
		}
		if want := "npctl: cannot delete the instance: the cloud is on fire; the next plan deletes the rest\n"; !strings.HasSuffix(tr.log.String(), want) {
			t.Errorf("log ends\n%s\nwant %s", &tr.log, want)
		}
	})
}

func TestCancelledBuildDeletesItsMachine(t *testing.T) {
	stop := errors.New("the operator pressed ^C")
	wait := func(ctx context.Context) { <-ctx.Done() }
	for name, stage := range map[string]func(tr *trial, cancel func()){
		"waiting for SSH": func(tr *trial, cancel func()) {
			tr.deaf = true
			tr.job.Progress = func(phase string, _, _ int64) {
				if strings.HasPrefix(phase, "waiting for SSH") {
					cancel()
				}
			}
		},
		"in the script": func(tr *trial, cancel func()) {
			tr.run = func(ctx context.Context, _ sshserver.Command) (int, bool) { cancel(); wait(ctx); return 0, true }
		},
		"going down": func(tr *trial, cancel func()) {
			tr.job.Config = buildertest.With(tr.job.Config, map[string]cty.Value{"shutdown_command": text("go down")})
			first := true
			tr.run = func(ctx context.Context, c sshserver.Command) (int, bool) {
				if first {
					first = false
					return 0, false
				}
				cancel()
				wait(ctx)
				return 0, true
			}
			tr.capture = context.Cause
		},
		"making the snapshot": func(tr *trial, cancel func()) {
			tr.capture = func(ctx context.Context) error { cancel(); wait(ctx); return ctx.Err() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			tr := newTrial(t, nil)
			stage(tr, func() { cancel(stop) })
			_, err := tr.build(ctx)
			if !errors.Is(err, stop) {
				t.Errorf("error is %v, want %v in it; log:\n%s", err, stop, &tr.log)
			}
			tr.leftNothing(t)
		})
	}
}

func TestBuildTimeoutAppliesToTheWholeBuild(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, nil)
	tr.deaf = true
	tr.job.Timeout = 3 * time.Second // by then it waits for that
	tr.mustFail(t, "wait for SSH at ", "timeout after 3s")
}

func TestJobWithoutInstancesIsExplained(t *testing.T) {
	tr := newTrial(t, nil)
	tr.job.Instances = nil
	tr.mustFail(t, "no build instances are available")
}
