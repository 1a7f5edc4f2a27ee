package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/resources"
)

// The time limits of hooks.
const (
	uploadHookTimeout = 30 * time.Minute
	nodeHookTimeout   = 5 * time.Minute
)

// hookValidate is the event of the program that tests a node of a new upload.
const hookValidate = "validate"

// maxNodeHooks is the number of node hooks that run at a time.
const maxNodeHooks = 20

// hook is one run of a program that the configuration names.
type hook struct {
	name  string // of its attribute
	args  []string
	env   map[string]string
	stdin []byte
	limit time.Duration
	facts []any // of its log lines
}

// hooks runs the programs that the configuration names.
type hooks struct {
	desired *resources.Desired
	log     *slog.Logger
	slots   chan struct{} // of node hooks
}

func (x *execution) hooks() hooks { return hooks{&x.Desired, x.Log, x.hookSlots} }

// run runs a hook in the directory of the configuration, with a clean environment, and logs its output.
func (hs hooks) run(ctx context.Context, h hook) error {
	dir, args := hs.desired.Settings.Dir, slices.Clone(h.args)
	if strings.Contains(args[0], "/") && !filepath.IsAbs(args[0]) {
		args[0] = filepath.Join(dir, args[0])
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.limit, fmt.Errorf("it ran for more than %s", h.limit))
	defer cancel()
	log := hs.log.With(h.facts...)
	err := process.Run(ctx, process.Spec{Args: args, Dir: dir, Env: process.Setall(process.BaseEnv(os.Environ()), h.env), Stdin: h.stdin,
		Line: func(line string) { log.Info(h.name, "line", line) }})
	if err != nil {
		return fmt.Errorf("%s: %w", h.name, err)
	}
	return nil
}

// Events of nodes with hooks.
const (
	hookLaunched = "launched"
	hookReady    = "ready"
	hookDeleted  = "deleted"
)

// of returns the program and the arguments of a hook for nodes of a provider, nil without one.
func (hs hooks) of(provider, event string) []string {
	p, ok := hs.desired.Provider(provider)
	switch {
	case !ok:
		return nil
	case event == hookLaunched:
		return p.NodeLaunchedHook
	case event == hookReady:
		return p.NodeReadyHook
	default:
		return p.NodeDeletedHook
	}
}

// runFor runs the hook of a node for an event, if its provider has one. The hook reads the node as JSON.
func (hs hooks) runFor(ctx context.Context, event string, n *resources.Node) error {
	return hs.runOn(ctx, n, hook{name: "node_" + event + "_hook", args: hs.of(n.Provider, event), limit: nodeHookTimeout}, event)
}

// test runs the program of a validation on a test node, if it has one.
func (hs hooks) test(ctx context.Context, n *resources.Node, rule *resources.Validation) error {
	return hs.runOn(ctx, n, hook{name: "program of validate", args: rule.Program, limit: rule.Timeout}, hookValidate)
}

// runOn runs a hook on a node, if it has arguments. The hook reads the node as JSON.
func (hs hooks) runOn(ctx context.Context, n *resources.Node, h hook, event string) error {
	if len(h.args) == 0 {
		return nil
	}
	node, err := json.Marshal(n)
	if err != nil {
		return err
	}
	select {
	case hs.slots <- struct{}{}:
		defer func() { <-hs.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	node = append(node, '\n')
	h.stdin = node
	h.facts = []any{"node", n.ID, "provider", n.Provider}
	h.env = map[string]string{"NPCTL_EVENT": event, "NPCTL_NODE_ID": n.ID, "NPCTL_PROVIDER": n.Provider, "NPCTL_POOL": n.Pool,
		"NPCTL_LABEL": strings.Join(n.Labels, ","), "NPCTL_EXTERNAL_ID": n.ExternalID, "NPCTL_ADDRESS": n.Addresses.Interface}
	return hs.run(ctx, h)
}

// notify runs a hook that does not affect the node, and logs its failure.
func (hs hooks) notify(ctx context.Context, event string, n *resources.Node) {
	if err := hs.runFor(ctx, event, n); err != nil {
		hs.log.Warn("a hook of a node failed", "node", n.ID, "provider", n.Provider, "error", err)
	}
}
