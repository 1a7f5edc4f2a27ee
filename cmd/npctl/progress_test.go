package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

func notTerminal(string) (string, bool) { return "", false }

func TestRunningStepPrintsAHeartbeatEveryHalfMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := &applyCommand{app: newApp(terminal.Streams{Err: &out}, notTerminal)}
		build := plan.Step{ID: "build x", Address: "diskimage.x", Kind: plan.KindBuild}
		upload := plan.Step{ID: "upload x", Address: "provider.a.image.x", Kind: plan.KindUpload}
		p := c.newProgress(plan.Plan{Steps: []plan.Step{build, upload}})
		p.event(reconcile.Event{Kind: reconcile.EventStart, Step: build})
		p.event(reconcile.Event{Kind: reconcile.EventProgress, Step: build, Phase: "installing packages"})
		time.Sleep(65 * time.Second)
		p.event(reconcile.Event{Kind: reconcile.EventProgress, Step: build, Phase: "converting to raw", Done: 1, Total: 4})
		time.Sleep(30 * time.Second)
		p.event(reconcile.Event{Kind: reconcile.EventDone, Step: build, Took: 95 * time.Second, ID: "0123456789abcdef"})
		time.Sleep(time.Hour)
		launch := plan.Step{ID: "launch x #1", Address: "provider.a.pool.main.label.x", Kind: plan.KindLaunch}
		p.event(reconcile.Event{Kind: reconcile.EventRetry, Step: launch, Err: errors.New("no valid host\nmore"), Done: 1, Total: 3})
		p.event(reconcile.Event{Kind: reconcile.EventStart, Step: upload})
		p.event(reconcile.Event{Kind: reconcile.EventFailed, Step: upload, Err: errors.New("quota\x1b[31m exceeded\nmore")})
		p.close()
		want := `build diskimage.x: started
build diskimage.x: still installing packages [27s]
build diskimage.x: still installing packages [54s]
build diskimage.x: still converting to raw (25%) [1m21s]
build diskimage.x: done [1m35s] (build 01234567)
launch provider.a.pool.main.label.x #1: attempt 1 of 3 failed: no valid host; retrying
upload provider.a.image.x: started
upload provider.a.image.x: failed: quota\x1b[31m exceeded
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

func TestLeftoversAreNamed(t *testing.T) {
	var out, events bytes.Buffer
	c := &applyCommand{app: newApp(terminal.Streams{Out: &out, Err: &out}, notTerminal), operation: "apply"}
	r := reconcile.Result{Undeleted: []reconcile.Undeleted{
		{Node: "0000000001", Provider: "a", Server: "4711", Err: errors.New("500\nmore")}, {Node: "0000000002", Provider: "b"},
	}}
	if err := c.printResult(plan.Plan{}, r, 90*time.Second); err != nil {
		t.Fatal(err)
	}
	want := `Warning: server 4711 of node 0000000001 in provider a, left by a failed launch attempt, is not deleted yet: 500; the next apply, or npctl watch, deletes it
Warning: the server of node 0000000002 in provider b, left by a failed launch attempt, is not deleted yet; the next apply, or npctl watch, deletes it

Apply complete: 0 built, 0 uploaded, 0 launched, 0 deleted. [1m30s]
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	(&eventWriter{to: &events}).summary("apply", r, 90*time.Second)
	if line := events.String(); !strings.Contains(line, `"type":"leftover"`) || !strings.Contains(line, `"record":"0000000001","provider":"a","server":"4711"`) {
		t.Errorf("events are %s", line)
	}
	if line := events.String(); !strings.Contains(line, `"type":"summary"`) || !strings.Contains(line, `"seconds":90,`) {
		t.Errorf("the summary in %s has no duration of 90 seconds", line)
	}
}

func TestResultSentence(t *testing.T) {
	steps := []plan.Step{
		{ID: "1", Kind: plan.KindBuild}, {ID: "2", Kind: plan.KindLaunch}, {ID: "3", Kind: plan.KindLaunch},
		{ID: "4", Kind: plan.KindForgetNode}, {ID: "5", Kind: plan.KindUpload},
	}
	failed := reconcile.Failure{Step: steps[4], Err: errors.New("no")}
	for _, c := range []struct {
		operation string
		result    reconcile.Result
		want      string
	}{
		{"apply", reconcile.Result{Done: steps[:3]}, "Apply complete: 1 built, 0 uploaded, 2 launched, 0 deleted."},
		{"destroy", reconcile.Result{Done: steps[3:4]}, "Destroy complete: 0 built, 0 uploaded, 0 launched, 1 forgotten, 0 deleted."},
		{"apply", reconcile.Result{Done: steps[:1], Failed: []reconcile.Failure{failed}, Skipped: []reconcile.Failure{failed, failed}},
			"Apply incomplete: 1 built, 0 uploaded, 0 launched, 0 deleted; 1 failed, 2 skipped of 5 steps."},
		{"apply", reconcile.Result{Interrupted: []reconcile.Failure{failed}, Skipped: []reconcile.Failure{failed}},
			"Apply incomplete: 0 built, 0 uploaded, 0 launched, 0 deleted; 0 failed, 1 interrupted, 1 skipped of 5 steps."},
	} {
		if got := resultSentence(c.operation, plan.Plan{Steps: steps}, c.result); got != c.want {
			t.Errorf("resultSentence(%s, %+v)\n got %s\nwant %s", c.operation, c.result, got, c.want)
		}
	}
}
