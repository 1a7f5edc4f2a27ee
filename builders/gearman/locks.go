package gearman

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// locks serializes the jobs of one build: building and removing it exclude all other jobs, and uploads exclude only
// these. Its zero value is ready to use.
type locks struct {
	mu   sync.Mutex
	byID map[string]*lock // guarded by mu
}

type lock struct {
	weights *semaphore.Weighted
	users   int
}

const exclusiveWeight = 1 << 30

// exclusive waits until no job uses the build. The caller must call unlock.
func (l *locks) exclusive(ctx context.Context, id string) (unlock func(), err error) {
	return l.acquire(ctx, id, exclusiveWeight)
}

// shared waits until the build is neither being built nor removed.
func (l *locks) shared(ctx context.Context, id string) (unlock func(), err error) {
	return l.acquire(ctx, id, 1)
}

func (l *locks) acquire(ctx context.Context, id string, weight int64) (func(), error) {
	held := l.use(id)
	if err := held.weights.Acquire(ctx, weight); err != nil {
		l.leave(id)
		return nil, context.Cause(ctx)
	}
	return func() {
		held.weights.Release(weight)
		l.leave(id)
	}, nil
}

func (l *locks) use(id string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[string]*lock{}
	}
	if l.byID[id] == nil {
		l.byID[id] = &lock{weights: semaphore.NewWeighted(exclusiveWeight)}
	}
	l.byID[id].users++
	return l.byID[id]
}

func (l *locks) leave(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID[id].users--; l.byID[id].users == 0 {
		delete(l.byID, id)
	}
}
