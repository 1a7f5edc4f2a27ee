package gearman

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// locks keep jobs about one build apart: while it is made or removed nothing else happens to it, while it is uploaded
// only other uploads do. Its zero value is ready.
type locks struct {
	mu   sync.Mutex
	byID map[string]*lock // guarded by mu
}

type lock struct {
	weights *semaphore.Weighted
	users   int
}

const alone = 1 << 30

// exclusive waits until nothing happens to the build. Call the function returned when done.
func (l *locks) exclusive(ctx context.Context, id string) (unlock func(), err error) {
	return l.acquire(ctx, id, alone)
}

// shared waits until the build is neither made nor removed.
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
		l.byID[id] = &lock{weights: semaphore.NewWeighted(alone)}
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
