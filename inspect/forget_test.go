package inspect_test

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestRecordsOfAProviderInUseAreNotForgotten(t *testing.T) {
	t.Parallel()
	pool := func(own bool) []resources.RegisteredPool {
		return []resources.RegisteredPool{{Provider: "old", Own: own, Program: "nodepool", Host: "nl01"}, {Provider: "other", Program: "nodepool"}}
	}
	for _, test := range []struct {
		name string
		in   inspect.ForgetInput
		want string
	}{
		{"nobody has it", inspect.ForgetInput{Pools: pool(true)[1:]}, ""},
		{"a launcher has registered it", inspect.ForgetInput{Pools: pool(false)}, "registered by nodepool on nl01"},
		{"another npctl holds its lock", inspect.ForgetInput{Holders: map[string]string{"old": "npctl@two"}}, "held by npctl@two"},
		{"the npctl of this state serves it", inspect.ForgetInput{Pools: pool(true), Holders: map[string]string{"old": "npctl@one"}}, ""},
	} {
		for _, chosen := range []plan.Records{{Nodes: []*resources.Node{{Provider: "old"}}}, {Uploads: []*resources.Upload{{Provider: "old"}}}} {
			test.in.Chosen = chosen
			if got := test.in.Refusal(); test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("%s: refusal %q, want %q", test.name, got, test.want)
			}
		}
	}
}

func TestProviderWithoutRecordIsForeign(t *testing.T) {
	t.Parallel()
	in := inspect.ForgetInput{Chosen: plan.Records{Nodes: []*resources.Node{{Provider: "ours"}, {Provider: "old"}, {Provider: "old"}}},
		Recorded: []*resources.ProviderRecord{{Name: "ours"}}}
	if got := in.Foreign(); len(got) != 1 || got[0] != "old" {
		t.Errorf("foreign: %v, want old", got)
	}
}
