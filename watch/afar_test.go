package watch_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
)

// afar is a builder that creates and keeps images on another host.
type afar struct {
	*exec.Builder
	made chan string    // receives the build
	sent chan time.Time // receives the time of the upload
}

var _ builders.Remote = afar{}

func (a afar) Build(_ context.Context, job builders.Job, _ io.Writer) (builders.Artifact, error) {
	time.Sleep(5 * time.Minute)
	a.made <- job.BuildID
	return builders.Artifact{Host: "h1"}, nil
}

func (a afar) Upload(context.Context, builders.UploadJob) (string, error) {
	select {
	case a.sent <- time.Now():
	default:
	}
	return "", errors.New("enough was seen")
}

func (afar) Remove(context.Context, string) error { return nil }

func (a afar) ListBuilds(context.Context) (map[string]bool, error) {
	select {
	case id := <-a.made:
		defer func() { a.made <- id }()
		return map[string]bool{id: true}, nil
	default:
		return nil, nil
	}
}

func TestBuildOfAnotherHostIsUploadedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		a := afar{Builder: &exec.Builder{}, made: make(chan string, 1), sent: make(chan time.Time, 1)}
		l.builder = a
		began := time.Now()
		_, end := l.daemon()
		defer end()
		if took := (<-a.sent).Sub(began); took > 5*time.Minute+10*time.Second {
			t.Errorf("a build of 5 minutes is uploaded after %s", took)
		}
	})
}
