package reconcile

import (
	"context"
	"fmt"

	"github.com/npctl/npctl/plan"
)

// stepKind describes the steps of one action on one kind of thing. It contains everything that the executor knows about
// them: a new kind of step is one line in stepKinds and its run function.
type stepKind struct {
	lock    func(*plan.Step) string // name of the lock in a shared store, or ""
	slot    slotKind                // limits how many of the steps run at a time
	brief   bool                    // only writes records: it needs no slot
	claims  bool                    // claims the step's record, if it has one, before run; other kinds claim inside run
	forgets bool                    // does not use the provider, so the connection to it is not recorded
	run     func(x *execution, ctx context.Context, s plan.Step) (id string, err error)
}

// slotKind is the resource that limits how many steps run at a time.
type slotKind int

const (
	slotProvider slotKind = iota // the provider: max_concurrency
	slotUpload                   // the uploads to the provider: max_uploads
	slotWork                     // the kind of image work, see WorkOf
)

// stepKey identifies a kind of steps.
type stepKey struct {
	action  plan.Action
	thing   plan.Thing
	machine bool // of ActionUpdate: it checks the machine of a static node
}

// stepKinds contains all kinds of steps.
var stepKinds = map[stepKey]stepKind{
	{plan.ActionBuild, plan.ThingBuild, false}:   {lock: imageLock, slot: slotWork, claims: true, run: (*execution).build},
	{plan.ActionDelete, plan.ThingBuild, false}:  {lock: imageLock, claims: true, run: idOf(recordID, (*execution).deleteBuild)},
	{plan.ActionConvert, plan.ThingFile, false}:  {lock: imageLock, slot: slotWork, run: idOf(builtID, (*execution).convertBuild)},
	{plan.ActionDelete, plan.ThingFile, false}:   {lock: imageLock, run: idOf(noID, (*execution).deleteFile)},
	{plan.ActionUpload, plan.ThingUpload, false}: {lock: imageLock, slot: slotUpload, claims: true, run: (*execution).upload},
	{plan.ActionUpdate, plan.ThingUpload, false}: {lock: imageLock, brief: true, run: idOf(recordID, (*execution).updateUpload)},
	{plan.ActionDelete, plan.ThingUpload, false}: {lock: imageLock, claims: true, run: idOf(recordID, (*execution).deleteUpload)},

	{plan.ActionLaunch, plan.ThingNode, false}:     {lock: providerLock, run: (*execution).launch},
	{plan.ActionDelete, plan.ThingNode, false}:     {lock: providerLock, run: idOf(recordID, (*execution).deleteNode)},
	{plan.ActionUpdate, plan.ThingNode, false}:     {lock: providerLock, brief: true, run: idOf(recordID, onRecords(requestRecords.updateNode))},
	{plan.ActionUpdate, plan.ThingNode, true}:      {lock: providerLock, claims: true, run: (*execution).registerStatic},
	{plan.ActionRegister, plan.ThingNode, false}:   {lock: providerLock, claims: true, run: (*execution).registerStatic},
	{plan.ActionUnregister, plan.ThingNode, false}: {lock: providerLock, claims: true, run: idOf(recordID, (*execution).deleteNode)},

	{plan.ActionServe, plan.ThingRequest, false}:   {lock: providerLock, brief: true, run: idOf(requestID, (*execution).serve)},
	{plan.ActionDecline, plan.ThingRequest, false}: {lock: providerLock, brief: true, run: idOf(requestID, onRecords(requestRecords.decline))},
	{plan.ActionUpdate, plan.ThingRequest, false}:  {lock: providerLock, brief: true, run: idOf(requestID, onRecords(requestRecords.restartRequest))},

	{plan.ActionDelete, plan.ThingLeftover, false}: {lock: leftoverLock, run: idOf(externalID, (*execution).deleteLeftover)},
	{plan.ActionUpdate, plan.ThingRecord, false}:   {lock: recordLock, brief: true, run: idOf(recordID, (*execution).recordWritten)},

	{plan.ActionForget, plan.ThingNode, false}:    {lock: providerLock, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
	{plan.ActionForget, plan.ThingRequest, false}: {lock: providerLock, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
	{plan.ActionForget, plan.ThingUpload, false}:  {lock: imageLock, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
	{plan.ActionForget, plan.ThingBuild, false}:   {lock: imageLock, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
	{plan.ActionForget, plan.ThingRecord, false}:  {lock: recordLock, brief: true, forgets: true, run: idOf(recordID, (*execution).forgetRecord)},
}

// kindOf returns the kind of a step. It has no run function if this npctl does not know the kind.
func kindOf(s *plan.Step) stepKind {
	return stepKinds[stepKey{s.Action, s.Thing, s.Action == plan.ActionUpdate && s.ChecksMachine()}]
}

// prepare records the connection to the provider of a step and claims the record of the step, if its kind requires it.
func (x *execution) prepare(ctx context.Context, s plan.Step) error {
	kind := kindOf(&s)
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

func noID(*plan.Step) string         { return "" }
func recordID(s *plan.Step) string   { return s.Record.ID }
func requestID(s *plan.Step) string  { return s.Request }
func builtID(s *plan.Step) string    { return s.Build }
func externalID(s *plan.Step) string { return s.External }

// forgetRecord removes a record whose object is gone.
func (x *execution) forgetRecord(ctx context.Context, s plan.Step) error {
	return x.cache.drop(ctx, s.Record)
}

// recordWritten does nothing: bookkeeping has written the record of the provider or image.
func (x *execution) recordWritten(context.Context, plan.Step) error { return nil }
