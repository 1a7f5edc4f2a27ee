package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fieldsOf names the fields of Step that the steps of each kind may have, beside those of all kinds.
var fieldsOf = func() map[Kind]string {
	const (
		image   = " Image ImageKind Build "
		upload  = image + "Provider External Format "
		node    = " Provider Pool Label External "
		slot    = " Provider Pool Label Node Slot "
		request = " Request EventID "
	)
	return map[Kind]string{
		KindBuild:        image + "Version Formats Files Replaces",
		KindConvert:      image + "Format",
		KindMoveBuild:    image,
		KindForgetBuild:  image,
		KindReleaseBuild: image,
		KindDeleteBuild:  image,
		KindDeleteFile:   image + "Format External",

		KindUpload:        upload + "Values Replaces",
		KindImportImage:   upload,
		KindUpdateUpload:  upload,
		KindMoveUpload:    upload,
		KindForgetUpload:  upload,
		KindReleaseUpload: upload,
		KindDeleteUpload:  upload + "Replaces",

		KindLaunch:         node + image + request + "Upload Values Zone Move Replaces ReplacesNode",
		KindValidate:       node + image + "Upload Values",
		KindImportNode:     node + "Becomes",
		KindRegisterSlot:   slot,
		KindCheckSlot:      slot,
		KindUpdateNode:     slot + request,
		KindMoveNode:       node + slot,
		KindForgetNode:     node + "Becomes",
		KindReleaseNode:    node,
		KindUnregisterSlot: slot,
		KindDeleteNode:     node + "Move Replaces",

		KindServe:          request + "Provider Pool Zone Label Nodes",
		KindDecline:        request + "Label Declined",
		KindRestartRequest: request + "Label Nodes",
		KindMoveRequest:    request + "Provider",
		KindForgetRequest:  request,

		KindDeleteLeftover: "Provider External Type",
		KindUpdateRecord:   "Provider Image ImageKind",
		KindMoveRecord:     "Provider Image ImageKind",
		KindForgetRecord:   "Provider",
	}
}()

// generalFields are the fields that the steps of all kinds may have.
var generalFields = strings.Fields("ID Address Kind Reason Evidence Changes Needs After Record Preconditions NeedsConsent Estimate Source")

// foreignField describes a field of a step that its kind does not have. It returns "" if there is none.
func foreignField(steps []Step) string {
	for i := range steps {
		s := reflect.ValueOf(&steps[i]).Elem()
		allowed, known := fieldsOf[steps[i].Kind]
		if !known {
			return fmt.Sprintf("step %q: unknown kind %s", steps[i].ID, steps[i].Kind)
		}
		for j := range s.NumField() {
			name := s.Type().Field(j).Name
			if !s.Field(j).IsZero() && !slices.Contains(generalFields, name) && !slices.Contains(strings.Fields(allowed), name) {
				return fmt.Sprintf("step %q of the kind %s has %s: %v", steps[i].ID, steps[i].Kind, name, s.Field(j))
			}
		}
	}
	return ""
}

func TestEveryKindHasItsFields(t *testing.T) {
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Step]()) {
		fields[f.Name] = true
	}
	for _, kind := range Kinds() {
		for _, name := range strings.Fields(fieldsOf[kind]) {
			if !fields[name] {
				t.Errorf("Step has no field %s", name)
			}
		}
	}
	if len(fieldsOf) != len(Kinds()) {
		t.Errorf("%d kinds have fields, of %d", len(fieldsOf), len(Kinds()))
	}
}

func TestKindsSurviveJSON(t *testing.T) {
	for _, kind := range Kinds() {
		s := Step{Kind: kind}
		switch kind {
		case KindCheckSlot:
			s.Node, s.Reason = "rack-1", ReasonUsed
		case KindUpdateNode:
			s.Node, s.Reason = "rack-1", ReasonRequestGone
		case KindReleaseNode, KindReleaseUpload, KindReleaseBuild:
			s.Reason = ReasonRemoved
		}
		read := []Step{s}
		read[0].Kind = Kind{Action: kind.Action, Thing: kind.Thing}
		if unknown := RestoreKinds(read); unknown != nil || read[0].Kind != kind {
			t.Errorf("%s became %s", kind, read[0].Kind)
		}
	}
	if RestoreKinds([]Step{{Kind: Kind{Action: ActionLaunch, Thing: ThingBuild}}}) == nil {
		t.Error("a build is launched")
	}
}
