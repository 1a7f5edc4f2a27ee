package plan

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func TestCopyOfTheStateHasTheSameFingerprints(t *testing.T) {
	now := time.Date(2026, 3, 2, 13, 30, 0, 0, time.FixedZone("", 3600))
	record := &resources.Node{ID: "0000000003", State: resources.StateReady, StateTime: now, Labels: []string{"a"}}
	text, err := json.Marshal(record)
	testutil.Must(t, err)
	var copied resources.Node
	testutil.Must(t, json.Unmarshal(text, &copied))
	var here, there Records
	here.Put(record, 17)
	there.Put(&copied, 46)
	at := func(r Records) Fingerprint {
		return (&world{seen: Observed{Records: r}}).fingerprint(record.Key())
	}
	if at(here) != at(there) || at(here) == at(Records{}) {
		t.Errorf("%v, %v, without the record %v", at(here), at(there), at(Records{}))
	}
}
