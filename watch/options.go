package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// Options configures a Daemon. Only Engine is required.
type Options struct {
	Engine *reconcile.Engine
	// Load reads the configuration for Reload.
	Load func(ctx context.Context) (resources.Desired, error)
	// AllowDestroy consents to the deletions that the first configuration asks for.
	AllowDestroy bool
	// Providers are the providers to serve; empty means all.
	Providers []string
	// Tasks are the tasks to perform; when empty, hasTask chooses them.
	Tasks []Task
	// Refresh is the time between two listings of a provider without a trigger; 0 means 1 minute.
	Refresh time.Duration
	Log     *slog.Logger
	// Observe, when set, is called with each pass, for example for metrics.
	Observe func(Pass)
	// Step, when set, is called with each step event, one call at a time.
	Step func(reconcile.Event)
	// Taken, when set, is called with each request that a requestor has taken, and with its nodes.
	Taken func(*resources.Request, []*resources.Node)
	// RequestRefused, when set, is called for each request that the daemon refuses because max_requests are open.
	RequestRefused func()
	// Reloaded, when set, is called with the result of each Reload, one call at a time.
	Reloaded func(plan.Plan, error)
	// Stall is how long requests may wait without a launch or serve step before the daemon reports a stall; 0 means 15
	// minutes.
	Stall time.Duration
	// Shadow makes the daemon read-only: it decides, starts no steps, and compares its decisions with those of the
	// processes that serve. The store must be shared; the daemon needs no permission to write there.
	Shadow bool
	// Compared, when set, is called with each comparison that a shadow makes.
	Compared func(Comparison)
}
