package plan

import (
	"cmp"
	"maps"
	"slices"
)

// Action is what a step does.
type Action string

// The actions; actionKinds describes them.
const (
	ActionBuild      Action = "build"      // build an image
	ActionConvert    Action = "convert"    // create a further format of a build
	ActionUpload     Action = "upload"     // upload a build to a provider
	ActionValidate   Action = "validate"   // test an upload with a node
	ActionLaunch     Action = "launch"     // create a node
	ActionImport     Action = "import"     // adopt a server or an image of another owner
	ActionRegister   Action = "register"   // register a static node's slot
	ActionUpdate     Action = "update"     // change a record
	ActionServe      Action = "serve"      // assign nodes to a request
	ActionDecline    Action = "decline"    // record that pools will not serve a request
	ActionMove       Action = "move"       // write the present names of moved blocks into a record
	ActionForget     Action = "forget"     // remove a record; its object is gone, or stays without ownership tags
	ActionUnregister Action = "unregister" // remove the record of a static node's slot; the machine stays
	ActionDelete     Action = "delete"     // delete an object and its record
)

// Thing is the kind of object that a step acts on.
type Thing string

// The kinds of objects.
const (
	ThingBuild    Thing = "build"
	ThingUpload   Thing = "upload"
	ThingNode     Thing = "node"
	ThingRequest  Thing = "request"
	ThingLeftover Thing = "leftover" // object in a cloud or directory with our ownership tags and without a record
	ThingFile     Thing = "file"     // image file on disk
	ThingRecord   Thing = "record"   // bookkeeping: provider and image records, templates
)

// Kind is a kind of steps. Kinds are compared with ==; the variables below are all of them.
type Kind struct {
	Action Action `json:"action"`
	Thing  Thing  `json:"thing"`

	variant variant // JSON omits it; see RestoreKinds
}

// variant distinguishes kinds with the same action and thing.
type variant string

const (
	checking  variant = "checks a machine"                                   // of an update of a node
	releasing variant = "removes the ownership tags of an object that stays" // of forgetting a record
)

// The kinds of steps on builds and image files.
var (
	KindBuild        = define(ActionBuild, ThingBuild, "", KindInfo{Slot: SlotWork, Claims: true})
	KindConvert      = define(ActionConvert, ThingFile, "", KindInfo{Slot: SlotWork})
	KindMoveBuild    = define(ActionMove, ThingBuild, "", KindInfo{Brief: true})
	KindForgetBuild  = define(ActionForget, ThingBuild, "", KindInfo{Brief: true})
	KindReleaseBuild = define(ActionForget, ThingBuild, releasing, KindInfo{Claims: true})
	KindDeleteBuild  = define(ActionDelete, ThingBuild, "", KindInfo{Claims: true})
	KindDeleteFile   = define(ActionDelete, ThingFile, "", KindInfo{})
)

// The kinds of steps on uploads.
var (
	KindUpload        = define(ActionUpload, ThingUpload, "", KindInfo{Slot: SlotUpload, Claims: true})
	KindImportImage   = define(ActionImport, ThingUpload, "", KindInfo{})
	KindUpdateUpload  = define(ActionUpdate, ThingUpload, "", KindInfo{Brief: true})
	KindMoveUpload    = define(ActionMove, ThingUpload, "", KindInfo{Brief: true})
	KindForgetUpload  = define(ActionForget, ThingUpload, "", KindInfo{Brief: true})
	KindReleaseUpload = define(ActionForget, ThingUpload, releasing, KindInfo{Claims: true})
	KindDeleteUpload  = define(ActionDelete, ThingUpload, "", KindInfo{Claims: true})
)

// The kinds of steps on nodes; a slot is a node of a static machine.
var (
	KindLaunch         = define(ActionLaunch, ThingNode, "", KindInfo{}) // claims its node itself: there may be no record yet
	KindValidate       = define(ActionValidate, ThingNode, "", KindInfo{})
	KindImportNode     = define(ActionImport, ThingNode, "", KindInfo{})
	KindRegisterSlot   = define(ActionRegister, ThingNode, "", KindInfo{Claims: true})
	KindCheckSlot      = define(ActionUpdate, ThingNode, checking, KindInfo{Claims: true}) // checks the machine as for a new slot
	KindUpdateNode     = define(ActionUpdate, ThingNode, "", KindInfo{Brief: true})        // changes only the record, also that of a slot
	KindMoveNode       = define(ActionMove, ThingNode, "", KindInfo{Brief: true})
	KindForgetNode     = define(ActionForget, ThingNode, "", KindInfo{Brief: true})
	KindReleaseNode    = define(ActionForget, ThingNode, releasing, KindInfo{Claims: true})
	KindUnregisterSlot = define(ActionUnregister, ThingNode, "", KindInfo{Claims: true})
	KindDeleteNode     = define(ActionDelete, ThingNode, "", KindInfo{})
)

// The kinds of steps on requests.
var (
	KindServe          = define(ActionServe, ThingRequest, "", KindInfo{Brief: true})
	KindDecline        = define(ActionDecline, ThingRequest, "", KindInfo{Brief: true})
	KindRestartRequest = define(ActionUpdate, ThingRequest, "", KindInfo{Brief: true}) // returns it to its initial state
	KindMoveRequest    = define(ActionMove, ThingRequest, "", KindInfo{Brief: true})
	KindForgetRequest  = define(ActionForget, ThingRequest, "", KindInfo{Brief: true})
)

// The other kinds of steps.
var (
	KindDeleteLeftover = define(ActionDelete, ThingLeftover, "", KindInfo{})
	KindUpdateRecord   = define(ActionUpdate, ThingRecord, "", KindInfo{Brief: true})
	KindMoveRecord     = define(ActionMove, ThingRecord, "", KindInfo{Brief: true})
	KindForgetRecord   = define(ActionForget, ThingRecord, "", KindInfo{Brief: true})
)

// KindInfo describes a kind of steps for the executor.
type KindInfo struct {
	Slot   SlotKind
	Brief  bool // only writes records: it needs no slot
	Claims bool // the executor claims the step's record, if it has one, before it runs the step
}

// SlotKind names the limit of concurrent steps that a kind of steps counts towards.
type SlotKind int

// The limits.
const (
	SlotProvider SlotKind = iota // the steps on the provider: max_concurrency
	SlotUpload                   // the uploads to the provider: max_uploads
	SlotWork                     // the kind of image work
)

var kinds = map[Kind]KindInfo{}

func define(a Action, t Thing, v variant, info KindInfo) Kind {
	k := Kind{a, t, v}
	kinds[k] = info
	return k
}

// Kinds returns all kinds, sorted.
func Kinds() []Kind {
	return slices.SortedFunc(maps.Keys(kinds), func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.Thing, b.Thing), cmp.Compare(a.Action, b.Action), cmp.Compare(a.variant, b.variant))
	})
}

// Info describes the kind. It is zero for a kind that this npctl does not know.
func (k Kind) Info() KindInfo { return kinds[k] }

// String returns text such as "launch node".
func (k Kind) String() string {
	text := string(k.Action) + " " + string(k.Thing)
	if k.variant != "" {
		text += " (" + string(k.variant) + ")"
	}
	return text
}

// Removes reports whether the steps take something out of service. The guards against deletion count such steps.
func (k Kind) Removes() bool { return k.Action == ActionDelete || k.Action == ActionUnregister }

// Releases reports whether the steps remove the ownership tags of an object that stays, and then its record.
func (k Kind) Releases() bool { return k.variant == releasing }

// RestoreKinds completes the kinds of steps that were read from JSON, which omits their variants. It returns the first step of a
// kind that this npctl does not know, or nil.
func RestoreKinds(steps []Step) (unknown *Step) {
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Action == ActionForget && s.Reason == ReasonRemoved:
			s.variant = releasing
		case s.Kind == KindUpdateNode && s.Node != "" && s.Reason != ReasonRequestGone:
			s.variant = checking
		}
		if _, known := kinds[s.Kind]; !known {
			return s
		}
	}
	return nil
}
