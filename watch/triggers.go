package watch

import (
	"sync"

	"github.com/npctl/npctl/plan"
)

// inputsTrigger is the name by which the input poller is triggered; no provider has it.
const inputsTrigger = ""

// triggers wakes pollers before their next listing is due.
type triggers struct {
	mu         sync.Mutex // guards byProvider
	byProvider map[string]chan struct{}
}

func (n *triggers) channel(provider string) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byProvider == nil {
		n.byProvider = map[string]chan struct{}{}
	}
	if n.byProvider[provider] == nil {
		n.byProvider[provider] = make(chan struct{}, 1)
	}
	return n.byProvider[provider]
}

// onStepDone triggers the listing that shows the result of a step: of a provider, or of build hosts.
func (n *triggers) onStepDone(s plan.Step) {
	switch {
	case s.Action == plan.ActionBuild:
		n.trigger(inputsTrigger)
	case s.Provider != "" && (s.Action == plan.ActionUpload || s.Thing == plan.ThingLeftover || s.Thing == plan.ThingUpload):
		n.trigger(s.Provider)
	}
}

func (n *triggers) trigger(provider string) {
	select {
	case n.channel(provider) <- struct{}{}:
	default:
	}
}
