package reconcile

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestLogAttributesOfAStep(t *testing.T) {
	for _, test := range []struct {
		step plan.Step
		id   string
		want string
	}{
		{plan.Step{ID: "launch request 7 #1 (3)", Kind: plan.KindLaunch, Request: "7", EventID: "e5", Provider: "one", Image: "debian"}, "17",
			`step="launch request 7 #1 (3)" node=17 request=7 event_id=e5 provider=one image=debian`},
		{plan.Step{ID: "delete node 17", Kind: plan.KindDeleteNode, Record: resources.Key{Kind: resources.KindNode, ID: "17"}, Provider: "one", Reason: plan.ReasonLeaked}, "",
			`step="delete node 17" node=17 provider=one reason=leaked`},
		{plan.Step{ID: "serve request 7", Kind: plan.KindServe, Record: resources.Key{Kind: resources.KindRequest, ID: "7"}, Request: "7",
			Nodes: []string{"17", "", "18"}, Provider: "one"}, "", `step="serve request 7" request=7 nodes=17,18 provider=one`},
		{plan.Step{ID: "upload debian", Kind: plan.KindUpload, Image: "debian", Provider: "one"}, "3",
			`step="upload debian" id=3 provider=one image=debian`},
	} {
		var line bytes.Buffer
		slog.New(slog.NewTextHandler(&line, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey {
				return slog.Attr{}
			}
			return a
		}})).Info("step done", about(test.step, test.id)...)
		if got := line.String(); got != test.want+"\n" {
			t.Errorf("%s: the log has %swant %s", test.step.ID, got, test.want)
		}
	}
}
