package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// stepKind describes the steps of one action on one kind of thing. It contains everything that the executor knows about
// them: a new kind of step is one line in stepKinds and its run function.
type stepKind struct {
	lock    lockKind // the lock in a shared store
	slot    slotKind // limits how many of the steps run at a time
	brief   bool     // only writes records: it needs no slot
	claims  bool     // claims the step's record, if it has one, before run; other kinds claim inside run
	forgets bool     // does not use the provider, so the connection to it is not recorded
	run     func(x *execution, ctx context.Context, s plan.Step) (id string, err error)
}

// lockKind is the kind of the lock that a step needs in a shared store.
type lockKind int

const (
	lockProvider lockKind = iota + 1 // of the provider, if the step has one
	lockImage                        // of the image or, without one, of leaked images
	lockRecord                       // of the image or provider with the record that the step writes
	lockLeftover                     // of leaked images or of the provider
)

// slotKind is the resource that limits how many steps run at a time.
type slotKind int

const (
	slotProvider slotKind = iota // the provider: max_concurrency
	slotUpload                   // the uploads to the provider: max_uploads
	slotWork                     // the kind of image work, see WorkOf
)

// stepKey identifies a kind of steps.
type stepKey struct {
	action plan.Action
	thing  plan.Thing
	object bool // of ActionUpdate: it checks the machine of a static node; of ActionForget: it releases an object that stays
}

// stepKinds contains all kinds of steps.
var stepKinds = map[stepKey]stepKind{
	{plan.ActionBuild, plan.ThingBuild, false}:   {lock: lockImage, slot: slotWork, claims: true, run: (*execution).build},
	{plan.ActionDelete, plan.ThingBuild, false}:  {lock: lockImage, claims: true, run: idOf(recordID, (*execution).deleteBuild)},
	{plan.ActionConvert, plan.ThingFile, false}:  {lock: lockImage, slot: slotWork, run: idOf(builtID, (*execution).convertBuild)},
	{plan.ActionDelete, plan.ThingFile, false}:   {lock: lockImage, run: idOf(noID, (*execution).deleteFile)},
	{plan.ActionUpload, plan.ThingUpload, false}: {lock: lockImage, slot: slotUpload, claims: true, run: (*execution).upload},
	{plan.ActionUpdate, plan.ThingUpload, false}: {lock: lockImage, brief: true, run: idOf(recordID, (*execution).updateUpload)},
	{plan.ActionDelete, plan.ThingUpload, false}: {lock: lockImage, claims: true, run: idOf(recordID, (*execution).deleteUpload)},

	{plan.ActionImport, plan.ThingUpload, false}: {lock: lockImage, run: (*execution).importImage},
	{plan.ActionImport, plan.ThingNode, false}:   {lock: lockProvider, run: (*execution).importNode},

	{plan.ActionLaunch, plan.ThingNode, false}:     {lock: lockProvider, run: (*execution).launch},
	{plan.ActionDelete, plan.ThingNode, false}:     {lock: lockProvider, run: idOf(recordID, (*execution).deleteNode)},
	{plan.ActionUpdate, plan.ThingNode, false}:     {lock: lockProvider, brief: true, run: idOf(recordID, (*execution).updateNode)},
	{plan.ActionUpdate, plan.ThingNode, true}:      {lock: lockProvider, claims: true, run: (*execution).registerStatic},
	{plan.ActionRegister, plan.ThingNode, false}:   {lock: lockProvider, claims: true, run: (*execution).registerStatic},
	{plan.ActionUnregister, plan.ThingNode, false}: {lock: lockProvider, claims: true, run: idOf(recordID, (*execution).deleteNode)},

	{plan.ActionServe, plan.ThingRequest, false}:   {lock: lockProvider, brief: true, run: idOf(requestID, (*execution).serve)},
	{plan.ActionDecline, plan.ThingRequest, false}: {lock: lockProvider, brief: true, run: idOf(requestID, onRecords(requestRecords.decline))},
	{plan.ActionUpdate, plan.ThingRequest, false}:  {lock: lockProvider, brief: true, run: idOf(requestID, onRecords(requestRecords.restartRequest))},

	{plan.ActionDelete, plan.ThingLeftover, false}: {lock: lockLeftover, run: idOf(externalID, (*execution).deleteLeftover)},
	{plan.ActionUpdate, plan.ThingRecord, false}:   {lock: lockRecord, brief: true, run: idOf(recordID, (*execution).recordWritten)},

	{plan.ActionMove, plan.ThingNode, false}:    {lock: lockProvider, brief: true, forgets: true, run: idOf(recordID, (*execution).moveRecord)},
	{plan.ActionMove, plan.ThingRequest, false}: {lock: lockProvider, brief: true, forgets: true, run: idOf(recordID, (*execution).moveRecord)},
	{plan.ActionMove, plan.ThingUpload, false}:  {lock: lockImage, brief: true, forgets: true, run: idOf(recordID, (*execution).moveRecord)},
	{plan.ActionMove, plan.ThingBuild, false}:   {lock: lockImage, brief: true, forgets: true, run: idOf(recordID, (*execution).moveRecord)},
	{plan.ActionMove, plan.ThingRecord, false}:  {lock: lockRecord, brief: true, forgets: true, run: idOf(recordID, (*execution).moveRecord)},

	{plan.ActionForget, plan.ThingNode, false}:    {lock: lockProvider, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
	{plan.ActionForget, plan.ThingRequest, false}: {lock: lockProvider, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
	{plan.ActionForget, plan.ThingUpload, false}:  {lock: lockImage, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
	{plan.ActionForget, plan.ThingBuild, false}:   {lock: lockImage, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
	{plan.ActionForget, plan.ThingNode, true}:     {lock: lockProvider, claims: true, run: idOf(recordID, (*execution).releaseObject)},
	{plan.ActionForget, plan.ThingUpload, true}:   {lock: lockImage, claims: true, run: idOf(recordID, (*execution).releaseObject)},
	{plan.ActionForget, plan.ThingBuild, true}:    {lock: lockImage, claims: true, run: idOf(recordID, (*execution).releaseBuild)},
	{plan.ActionForget, plan.ThingRecord, false}:  {lock: lockRecord, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
}

// stepKindOf returns the kind of a step. It has no run function if this npctl does not know the kind.
func stepKindOf(s *plan.Step) stepKind {
	return stepKinds[stepKey{s.Action, s.Thing, s.Action == plan.ActionUpdate && s.ChecksMachine() || s.Releases()}]
}

// prepare records the connection to the provider of a step and claims the record of the step, if its kind requires it.
func (x *execution) prepare(ctx context.Context, s plan.Step) error {
	kind := stepKindOf(&s)
	if kind.run == nil {
		return fmt.Errorf("this npctl cannot %s a %s", s.Action, s.Thing)
	}
	if s.Provider != "" && !kind.forgets {
		if err := x.books.rememberProvider(ctx, x.Engine, s.Provider, x.seen.Providers[s.Provider].Location); err != nil {
			return err
		}
	}
	if kind.claims && s.Record.Kind != "" {
		return x.claimRecord(ctx, s)
	}
	return nil
}

// idOf returns a run function that reports a fixed ID of the step.
func idOf(id func(*plan.Step) string, run func(*execution, context.Context, plan.Step) error) func(*execution, context.Context, plan.Step) (string, error) {
	return func(x *execution, ctx context.Context, s plan.Step) (string, error) { return id(&s), run(x, ctx, s) }
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

// ProviderLock returns the name of the lock of the process that manages a provider in a shared store.
func ProviderLock(provider string) string { return "provider " + provider }

// ImagesLock is the name of the lock of the process that deletes leaked images in a shared store.
const ImagesLock = "images"

// ImageLock returns the name of the lock of the process that builds, converts, uploads or deletes builds of an image in
// a shared store.
func ImageLock(image string) string { return "image " + image }

// IsImageLock reports whether a lock is for an image or for leaked images.
func IsImageLock(name string) bool {
	return name == ImagesLock || strings.HasPrefix(name, ImageLock(""))
}

// LockOf returns the name of the lock that a step needs in a shared store, or "" if it needs none.
func LockOf(s *plan.Step) string {
	switch lock := stepKindOf(s).lock; {
	case lock == lockImage && s.Image == "", lock == lockLeftover && s.Type == "image":
		return ImagesLock
	case lock == lockImage:
		return ImageLock(s.Image)
	case lock == lockRecord && s.Record.Kind == resources.KindImage && s.Image != "": // also of a moved image
		return ImageLock(s.Image)
	case lock == lockRecord && s.Record.Kind == resources.KindImage:
		return ImageLock(s.Record.ID)
	case s.Provider == "":
		return ""
	default:
		return ProviderLock(s.Provider)
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
	kind := stepKindOf(s).slot
	var name string
	var size int
	switch kind {
	case slotWork:
		name, size = e.WorkOf(*s)
	case slotUpload:
		name, size = uploadSemaphore+s.Provider, cmp.Or(int(p.MaxUploads), uploadsAtATime)
	default:
		name, size = providerSemaphore+s.Provider, cmp.Or(int(p.MaxConcurrency), defaultConcurrency)
	}
	release, err = l.acquire(ctx, name, size)
	if err != nil || kind != slotProvider || p.MaxConcurrency > 0 {
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
