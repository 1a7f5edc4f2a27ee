package gearman

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/npctl/npctl/builders"
	protocol "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/waits"
)

// removal is the removal of a build from one host, whichever gets the job.
//
// The answer may be lost after the host has removed the build; the job that is submitted again then finds no host. The
// build is gone if all hosts that offered it are up and do not offer it any more. A host without a connection may still
// have it.
type removal struct {
	*Builder
	id        string
	submitted int      // number of submissions
	hosts     []string // hosts that offered the build at the submissions; "" is a worker whose host is unknown
}

// Remove implements builders.Remote. If several hosts have the build, it removes the build from all of them. It repeats
// a removal without an answer.
func (b *Builder) Remove(ctx context.Context, buildID string) error {
	for hosts := 0; ; hosts++ {
		r := &removal{Builder: b, id: buildID}
		err := r.run(ctx)
		if errors.Is(err, builders.ErrHostUnavailable) && hosts > 0 && r.submitted == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if gone, err := r.isWithdrawn(ctx); gone || err != nil || hosts == mostHosts {
			return err
		}
	}
}

// mostHosts limits the removal of a build that reappears after each removal.
const mostHosts = 16

// run submits the job until a host answers, or until the build is gone. After an answer was lost it waits up to
// HostTimeout for the hosts that offered the build.
func (r *removal) run(ctx context.Context) error {
	for deadline := time.Now().Add(r.wait); ; {
		err := r.submit(ctx)
		if !r.isAnswerLost(err) {
			return err
		}
		gone, waitErr := r.await(ctx, deadline, err)
		if waitErr != nil {
			return waitErr
		}
		if gone {
			return nil
		}
		if !errors.Is(err, builders.ErrHostUnavailable) {
			return err // the host that offers the build has answered
		}
	}
}

// isAnswerLost reports whether the error may follow a removal that was done. A host fails a job that it receives after
// it has withdrawn the function.
func (r *removal) isAnswerLost(err error) bool {
	if slices.Contains(r.hosts, "") {
		return false // unknown hosts cannot be asked
	}
	return errors.Is(err, builders.ErrHostUnavailable) && r.submitted > 0 || errors.Is(err, protocol.ErrFailed) && r.submitted > 1
}

// await waits until the build is gone from all hosts or offered again. It returns the error why after the deadline.
func (r *removal) await(ctx context.Context, deadline time.Time, why error) (gone bool, err error) {
	for {
		gone, offered := r.check(ctx)
		if gone || offered {
			return gone, nil
		}
		if time.Now().After(deadline) {
			return false, why
		}
		if err := waits.Sleep(ctx, upPause); err != nil {
			return false, err
		}
	}
}

func (r *removal) submit(ctx context.Context) error {
	var why failure
	function := deletePrefix + r.id
	precheck := r.failIfNoHost(function)
	_, err := r.client.Do(ctx, protocol.Job{
		Function: function, Unique: unique(r.id), Wait: r.wait,
		Precheck: func(functions map[string]protocol.Function) error {
			if err := precheck(functions); err != nil {
				return err
			}
			r.submitted++
			r.addHosts(ctx, function)
			return nil
		},
		Output: func(data []byte) { why = why.or(data) },
	})
	if err != nil {
		return r.explain(fmt.Errorf("delete build %s: %w", r.id, err), why)
	}
	return nil
}

// addHosts adds the hosts that offer the function before a job for it is submitted.
func (r *removal) addHosts(ctx context.Context, function string) {
	peers, err := r.client.Peers(ctx)
	if err != nil {
		peers = nil
	}
	hosts := hostsOf(peers, function)
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	for _, host := range hosts {
		if !slices.Contains(r.hosts, host) {
			r.hosts = append(r.hosts, host)
		}
	}
}

// check reports whether the build is gone from all hosts, and whether one of them offers it. Neither is known while a
// host is not up. The functions are listed last: a host that was away offers its builds before it counts as up.
func (r *removal) check(ctx context.Context) (gone, offered bool) {
	up := true
	for _, host := range r.hosts {
		is, err := r.Up(ctx, host)
		up = up && is && err == nil
	}
	functions, err := r.client.Status(ctx)
	if err != nil {
		return false, false
	}
	offered = functions[deletePrefix+r.id].Workers > 0
	return up && !offered, offered
}

// isWithdrawn waits up to two seconds for the host to withdraw its functions, which it does after its answer.
func (r *removal) isWithdrawn(ctx context.Context) (withdrawn bool, err error) {
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		var functions map[string]protocol.Function
		functions, err = r.client.Status(ctx)
		if err == nil && functions[deletePrefix+r.id].Workers == 0 {
			return true, nil
		}
		if err := waits.Sleep(ctx, 50*time.Millisecond); err != nil {
			return false, err
		}
	}
	return false, err
}
