package plan

import (
	"maps"
	"slices"
)

// The reasons. Each step has exactly one; its evidence has the details.
const (
	ReasonNoBuild         Reason = "no-build"
	ReasonInputsChanged   Reason = "inputs-changed"
	ReasonRebuildAge      Reason = "rebuild-age"
	ReasonRequested       Reason = "requested"
	ReasonNewVersion      Reason = "new-version"
	ReasonFileMissing     Reason = "file-missing"
	ReasonFormatMissing   Reason = "format-missing"
	ReasonNotUploaded     Reason = "not-uploaded"
	ReasonBelowMinReady   Reason = "below-min-ready"
	ReasonConfigChanged   Reason = "config-changed"
	ReasonImageRemoved    Reason = "image-removed"
	ReasonLabelRemoved    Reason = "label-removed"
	ReasonPoolRemoved     Reason = "pool-removed"
	ReasonProviderRemoved Reason = "provider-removed"
	ReasonSuperseded      Reason = "superseded"
	ReasonUploaded        Reason = "uploaded"
	ReasonMaxReadyAge     Reason = "max-ready-age"
	ReasonAboveMaxServers Reason = "above-max-servers"
	ReasonUsed            Reason = "used"
	ReasonLost            Reason = "lost"
	ReasonFailed          Reason = "failed"
	ReasonUnfinished      Reason = "unfinished"
	ReasonLeaked          Reason = "leaked"
	ReasonDuplicate       Reason = "duplicate"
	ReasonNewStaticNode   Reason = "new-static-node"
	ReasonStaticNodeGone  Reason = "static-node-removed"
	ReasonSlotRemoved     Reason = "slot-removed"
	ReasonDestroy         Reason = "destroy"
	ReasonNothingLeft     Reason = "nothing-left"
	ReasonOrphaned        Reason = "orphaned"
	ReasonRequestWaiting  Reason = "request-waiting"
	ReasonNodesReady      Reason = "nodes-ready"
	ReasonDeclined        Reason = "declined"
	ReasonAllDeclined     Reason = "all-declined"
	ReasonDeadline        Reason = "deadline"
	ReasonNeverTaken      Reason = "never-taken"
	ReasonRequestGone     Reason = "request-gone"
	ReasonRoomNeeded      Reason = "room-needed"
	ReasonLeaseExpired    Reason = "lease-expired"
	ReasonHoldExpired     Reason = "hold-expired"
	ReasonAbandoned       Reason = "abandoned"
	ReasonUnavailable     Reason = "unavailable"
)

var reasonTexts = map[Reason]string{
	ReasonNoBuild:         "there is no usable build",
	ReasonInputsChanged:   "the inputs of the image have changed",
	ReasonRebuildAge:      "the newest build is older than rebuild_age",
	ReasonRequested:       "it was requested",
	ReasonNewVersion:      "its source has a newer one",
	ReasonFileMissing:     "the file of the build is needed for an upload and is missing",
	ReasonFormatMissing:   "a provider needs another format",
	ReasonNotUploaded:     "the provider does not have the newest build",
	ReasonBelowMinReady:   "fewer nodes are ready than min_ready requires",
	ReasonConfigChanged:   "its configuration changed",
	ReasonImageRemoved:    "the image is no longer used here",
	ReasonLabelRemoved:    "the pool no longer offers the label",
	ReasonPoolRemoved:     "the pool is no longer configured",
	ReasonProviderRemoved: "the provider is no longer configured",
	ReasonSuperseded:      "newer builds are kept instead",
	ReasonUploaded:        "delete_after_upload, and every provider has it",
	ReasonMaxReadyAge:     "it has been ready for longer than max_ready_age",
	ReasonAboveMaxServers: "the pool has more nodes than max_servers allows",
	ReasonUsed:            "it has been used",
	ReasonLost:            "the cloud no longer has it",
	ReasonFailed:          "it has failed",
	ReasonUnfinished:      "an earlier run was interrupted",
	ReasonLeaked:          "it has our ownership tags and no record",
	ReasonDuplicate:       "another one exists for the same record or slot",
	ReasonNewStaticNode:   "the node is new in the configuration",
	ReasonStaticNodeGone:  "the node is no longer configured",
	ReasonSlotRemoved:     "the node is configured with fewer slots",
	ReasonDestroy:         "the plan destroys everything",
	ReasonNothingLeft:     "none of its objects is left",
	ReasonOrphaned:        "its server is gone",
	ReasonRequestWaiting:  "a request waits for it",
	ReasonNodesReady:      "all its nodes are ready",
	ReasonDeclined:        "a pool cannot serve it",
	ReasonAllDeclined:     "no pool can serve it",
	ReasonDeadline:        "its deadline has passed",
	ReasonNeverTaken:      "its nodes were not taken in time",
	ReasonRequestGone:     "its request is gone",
	ReasonRoomNeeded:      "a request needs its capacity",
	ReasonLeaseExpired:    "its lease expired without renewal",
	ReasonHoldExpired:     "its hold has expired",
	ReasonAbandoned:       "the process that accepted it is gone",
	ReasonUnavailable:     "the provider that accepted it does not respond",
}

// Text returns the reason in words; an unknown code is its own text.
func (r Reason) Text() string {
	if text, ok := reasonTexts[r]; ok {
		return text
	}
	return string(r)
}

// Reasons returns all codes, sorted.
func Reasons() []Reason { return slices.Sorted(maps.Keys(reasonTexts)) }
