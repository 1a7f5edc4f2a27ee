package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// run executes a step and returns the ID of its object.
type run func(x *execution, ctx context.Context, s plan.Step) (id string, err error)

// runs has the function of each kind of steps. plan.KindInfo has the rest that the executor knows about a kind.
var runs = map[plan.Kind]run{
	plan.KindBuild:        (*execution).build,
	plan.KindConvert:      idOf(builtID, (*execution).convertBuild),
	plan.KindMoveBuild:    idOf(recordID, (*execution).moveRecord),
	plan.KindForgetBuild:  idOf(recordID, (*execution).forgetRecord),
	plan.KindReleaseBuild: idOf(recordID, (*execution).releaseBuild),
	plan.KindDeleteBuild:  idOf(recordID, (*execution).deleteBuild),
	plan.KindDeleteFile:   idOf(noID, (*execution).deleteFile),

	plan.KindUpload:        (*execution).upload,
	plan.KindImportImage:   (*execution).importImage,
	plan.KindUpdateUpload:  idOf(recordID, (*execution).updateUpload),
	plan.KindMoveUpload:    idOf(recordID, (*execution).moveRecord),
	plan.KindForgetUpload:  idOf(recordID, (*execution).forgetRecord),
	plan.KindReleaseUpload: idOf(recordID, (*execution).releaseObject),
	plan.KindDeleteUpload:  idOf(recordID, (*execution).deleteUpload),

	plan.KindLaunch:         (*execution).launch,
	plan.KindValidate:       (*execution).validate,
	plan.KindImportNode:     (*execution).importNode,
	plan.KindRegisterSlot:   (*execution).registerStatic,
	plan.KindCheckSlot:      (*execution).registerStatic,
	plan.KindUpdateNode:     idOf(recordID, (*execution).updateNode),
	plan.KindMoveNode:       idOf(recordID, (*execution).moveRecord),
	plan.KindForgetNode:     idOf(recordID, (*execution).forgetRecord),
	plan.KindReleaseNode:    idOf(recordID, (*execution).releaseObject),
	plan.KindUnregisterSlot: idOf(recordID, (*execution).deleteNode),
	plan.KindDeleteNode:     idOf(recordID, (*execution).deleteNode),

	plan.KindServe:          idOf(requestID, (*execution).serve),
	plan.KindDecline:        idOf(requestID, onRecords(requestRecords.decline)),
	plan.KindRestartRequest: idOf(requestID, onRecords(requestRecords.restartRequest)),
	plan.KindMoveRequest:    idOf(recordID, (*execution).moveRecord),
	plan.KindForgetRequest:  idOf(recordID, (*execution).forgetRecord),

	plan.KindDeleteLeftover: idOf(externalID, (*execution).deleteLeftover),
	plan.KindUpdateRecord:   idOf(recordID, (*execution).recordWritten),
	plan.KindMoveRecord:     idOf(recordID, (*execution).moveRecord),
	plan.KindForgetRecord:   idOf(recordID, (*execution).forgetRecord),
}

// prepare records the connection to the provider of a step and claims the record of the step, if its kind requires it.
func (x *execution) prepare(ctx context.Context, s plan.Step) error {
	if runs[s.Kind] == nil {
		return fmt.Errorf("this npctl does not support the step %s", s.Kind)
	}
	onlyRecord := s.Action == plan.ActionMove || s.Action == plan.ActionForget && !s.Releases()
	if s.Provider != "" && !onlyRecord {
		if err := x.books.rememberProvider(ctx, x.Engine, s.Provider, x.seen.Providers[s.Provider].Location); err != nil {
			return err
		}
	}
	if s.Info().Claims && s.Record.Kind != "" {
		return x.claimRecord(ctx, s)
	}
	return nil
}

// idOf returns a run function that reports a fixed ID of the step.
func idOf(id func(*plan.Step) string, do func(*execution, context.Context, plan.Step) error) run {
	return func(x *execution, ctx context.Context, s plan.Step) (string, error) { return id(&s), do(x, ctx, s) }
}

// onRecords returns a run function that only changes requests and nodes.
func onRecords(run func(requestRecords, context.Context, plan.Step) error) func(*execution, context.Context, plan.Step) error {
	return func(x *execution, ctx context.Context, s plan.Step) error {
		return run(requestRecords{x.cache, x.Now}, ctx, s)
	}
}

func noID(*plan.Step) string { return "" }

func recordID(s *plan.Step) string { return s.Record.ID }

func requestID(s *plan.Step) string { return s.Request }

func builtID(s *plan.Step) string { return s.Build }

func externalID(s *plan.Step) string { return s.External }

// forgetRecord removes the record of an object that is gone.
func (x *execution) forgetRecord(ctx context.Context, s plan.Step) error {
	return x.cache.drop(ctx, s.Record)
}

// recordWritten does nothing: bookkeeping has written the record of the provider or image.
func (x *execution) recordWritten(context.Context, plan.Step) error { return nil }

// LockOf returns the name of the lock that a step needs in a shared store, or "" if it needs none.
func LockOf(s *plan.Step) string {
	image := s.Thing == plan.ThingBuild || s.Thing == plan.ThingFile || s.Thing == plan.ThingUpload || s.Record.Kind == resources.KindImage
	switch {
	case image && s.Image != "":
		return state.ImageLock(s.Image)
	case image && s.Record.Kind == resources.KindImage:
		return state.ImageLock(s.Record.ID)
	case image, s.Thing == plan.ThingLeftover && s.Type == "image":
		return state.ImagesLock
	case s.Provider == "":
		return ""
	default:
		return state.ProviderLock(s.Provider)
	}
}

// underLocks acquires locks in a shared store until release is called. A daemon through which the store is opened lends its
// own locks. The returned context ends when a lock is lost.
func (e *Engine) underLocks(ctx context.Context, names []string, shared bool) (under context.Context, release func(), err error) {
	under, cancel := context.WithCancelCause(ctx)
	if _, direct := e.Store.(state.Shared); !direct && !shared {
		return under, func() { cancel(nil) }, nil
	}
	var locks []state.Lock
	release = func() {
		cancel(nil)
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), unclaimTimeout)
		defer stop()
		for _, lock := range locks {
			if err := lock.Unlock(ctx); err != nil {
				e.Log.Warn("a lock ends with the session", "error", err)
			}
		}
	}
	for _, name := range names {
		lock, err := e.Store.Lock(ctx, name, state.Holder{Operation: "apply"})
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		locks = append(locks, lock)
		go func() {
			select {
			case <-lock.Lost():
				cancel(fmt.Errorf("%s: %w", name, state.ErrLost))
			case <-under.Done():
			}
		}()
	}
	return under, release, nil
}

// locksOf returns the names of the locks that the steps need.
func locksOf(steps []plan.Step) (names []string) {
	for i := range steps {
		if name := LockOf(&steps[i]); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// slots limits how many steps run at a time, with one semaphore for each limit.
type slots struct {
	mu         sync.Mutex // guards the fields below
	semaphores map[string]*semaphore
	early      map[string]func() // by step ID: releases the slot of a step that only waits
}

func newSlots() *slots {
	return &slots{semaphores: map[string]*semaphore{}, early: map[string]func(){}}
}

// semaphore limits the steps of one kind, first come, first served. slots.mu guards its fields.
type semaphore struct {
	size, inUse int
	waiting     []chan struct{} // closed when the waiting step gets a slot
}

// grant gives free slots to waiting steps.
func (p *semaphore) grant() {
	for p.inUse < p.size && len(p.waiting) > 0 {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.inUse++
	}
}

// acquire waits for a slot of the semaphore of the given name. size is used when the semaphore does not exist yet.
func (l *slots) acquire(ctx context.Context, name string, size int) (release func(), err error) {
	turn := make(chan struct{})
	l.mu.Lock()
	p := l.semaphores[name]
	if p == nil {
		p = &semaphore{size: max(size, 1)}
		l.semaphores[name] = p
	}
	p.waiting = append(p.waiting, turn)
	p.grant()
	l.mu.Unlock()
	release = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.inUse--
		p.grant()
	}
	select {
	case <-turn:
		return release, nil
	case <-ctx.Done():
		l.mu.Lock()
		i := slices.Index(p.waiting, turn)
		if i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
		l.mu.Unlock()
		if i < 0 { // it got a slot at the same moment
			release()
		}
		return nil, ErrInterrupted
	}
}

// acquireFor waits for the slot that the kind of a step needs. The step may release it early unless max_concurrency is set:
// that limits all steps in progress, and its default only the steps that send requests.
func (l *slots) acquireFor(ctx context.Context, e *Engine, s *plan.Step) (release func(), err error) {
	p, ok := e.Desired.Provider(s.Provider)
	if !ok {
		p = &resources.Provider{}
	}
	kind := s.Info().Slot
	var name string
	var size int
	switch kind {
	case plan.SlotWork:
		name, size = e.WorkOf(*s)
	case plan.SlotUpload:
		name, size = uploadSemaphore+s.Provider, cmp.Or(int(p.MaxUploads), uploadsAtATime)
	default:
		name, size = providerSemaphore+s.Provider, cmp.Or(int(p.MaxConcurrency), defaultConcurrency)
	}
	release, err = l.acquire(ctx, name, size)
	if err != nil || kind != plan.SlotProvider || p.MaxConcurrency > 0 {
		return release, err
	}
	early := sync.OnceFunc(release)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early[s.ID] = early
	return func() {
		l.mu.Lock()
		delete(l.early, s.ID)
		l.mu.Unlock()
		early()
	}, nil
}

// releaseEarly releases the slot of a step that has sent its requests and only waits, so that other steps can start. It
// does nothing if the provider limits the steps in progress.
func (l *slots) releaseEarly(step string) {
	l.mu.Lock()
	release := l.early[step]
	l.mu.Unlock()
	if release != nil {
		release()
	}
}

// resize sets the sizes of a new configuration. A step that has a slot keeps it.
func (l *slots) resize(e *Engine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := func(name string, size int) {
		if p := l.semaphores[name]; p != nil {
			p.size = size
			p.grant()
		}
	}
	for i := range e.Desired.Providers {
		p := &e.Desired.Providers[i]
		to(providerSemaphore+p.Name, cmp.Or(int(p.MaxConcurrency), defaultConcurrency))
		to(uploadSemaphore+p.Name, cmp.Or(int(p.MaxUploads), uploadsAtATime))
	}
	for _, kind := range []string{workBuild, workFetch, workSnapshot, workConvert} {
		to(kind, e.workSize(kind))
	}
}

// Each provider has two semaphores, whose names start with these words.
const (
	providerSemaphore = "provider "
	uploadSemaphore   = "upload "
)

const (
	// uploadsAtATime is the default number of concurrent uploads to a provider.
	uploadsAtATime = 2
	// defaultConcurrency is how many steps send requests to a provider at a time if max_concurrency does not limit the
	// steps in progress.
	defaultConcurrency = 20
)

// Kinds of image work, each with its own semaphore.
const (
	workBuild    = "build" // uses the resources of this host
	workFetch    = "fetch"
	workSnapshot = "snapshot"
	workConvert  = "convert"
	workRemote   = "build elsewhere" // uses other hosts, where the step waits in a queue
)

// WorkOf returns the kind of work of a step on an image, and how many steps of that kind run at a time.
func (e *Engine) WorkOf(s plan.Step) (kind string, size int) {
	img, builder, err := e.imageBuilder(s.Image)
	_, remote := builder.(builders.Remote)
	switch {
	case err == nil && remote:
		kind = workRemote
	case s.Action == plan.ActionConvert:
		kind = workConvert
	case img != nil && img.Kind == resources.ZuulImage:
		kind = workFetch
	case img != nil && img.Builder == "snapshot":
		kind = workSnapshot
	default:
		kind = workBuild
	}
	return kind, e.workSize(kind)
}

// workSize returns how many steps of a kind of work run at a time. A configuration that was not loaded from files may
// not set it.
func (e *Engine) workSize(kind string) int {
	w := e.Desired.Settings.ImageWork
	switch kind {
	case workBuild:
		return cmp.Or(e.Builds, int(w.Builds), 1)
	case workFetch:
		return cmp.Or(int(w.Fetches), 1)
	case workSnapshot:
		return cmp.Or(int(w.Snapshots), 1)
	case workConvert:
		return cmp.Or(int(w.Conversions), 1)
	default:
		return defaultConcurrency
	}
}
