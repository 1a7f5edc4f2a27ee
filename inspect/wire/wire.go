// Package wire defines the JSON types of the daemon's HTTP API.
//
// The format only grows: names keep their meaning, and clients ignore unknown names in responses. The daemon decodes
// calls strictly and rejects unknown names.
package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Version is the first segment of every path except those of health checks, metrics and the OpenAPI description.
const Version = "v1"

// MediaProblem is the media type of errors.
const MediaProblem = "application/problem+json"

// NewRequest is the body of a call that creates a request.
type NewRequest struct {
	Labels           []string        `json:"labels" minItems:"1" maxItems:"100" minLength:"1" maxLength:"1024" doc:"One node for each label, all from one pool. A label may occur several times."`
	Priority         *int64          `json:"priority,omitempty" minimum:"1" maximum:"999" doc:"From 1 to 999; the lower number goes first. Default: 200."`
	RelativePriority int64           `json:"relative_priority,omitempty" doc:"Orders requests of the same priority; the lower number goes first."`
	Requestor        string          `json:"requestor,omitempty" maxLength:"1024" doc:"The client that creates the request, for operators."`
	Tenant           string          `json:"tenant,omitempty" maxLength:"1024" doc:"The tenant whose limits the request counts against."`
	EventID          string          `json:"event_id,omitempty" maxLength:"1024" doc:"Correlates the request with logs of the requestor. npctl does not interpret it."`
	Provider         string          `json:"provider,omitempty" maxLength:"1024" doc:"The only provider that may serve the request."`
	Data             json.RawMessage `json:"data,omitempty" doc:"Any JSON up to 64 KiB, which npctl stores and returns unchanged. Do not store secrets in it."`
	Deadline         time.Time       `json:"deadline,omitzero" doc:"The request fails at this time unless it is fulfilled."`
	Fresh            bool            `json:"fresh,omitempty" doc:"Only nodes that are launched for this request may serve it."`
}

// Request is a request for nodes.
type Request struct {
	resources.Request
	Assigned []string `json:"assigned,omitempty" doc:"IDs of the nodes that are assigned to the request while it is pending."`
}

// Requests is a page of a list of requests.
type Requests struct {
	Requests []Request `json:"requests"`
	Next     string    `json:"next,omitempty" doc:"The value of after for the next page; absent on the last page."`
}

// Take sets the holder and the lease of the nodes of a request.
type Take struct {
	Holder string `json:"holder,omitempty" maxLength:"1024" doc:"The client that takes the nodes. Only the same name can renew the lease."`
	Lease  int64  `json:"lease_seconds,omitempty" minimum:"5" maximum:"86400" doc:"The nodes return automatically when the lease is not renewed for this time. Default: no lease."`
}

// Node is a node.
type Node struct {
	resources.Node
	Step string `json:"step,omitempty" doc:"The running step of the node."`
}

// Nodes is a page of a list of nodes.
type Nodes struct {
	Nodes []Node `json:"nodes"`
	Next  string `json:"next,omitempty" doc:"The value of after for the next page; absent on the last page."`
}

// Renew names the holder that renews a lease.
type Renew struct {
	Holder string `json:"holder,omitempty" maxLength:"1024" doc:"The name of the client that took the node."`
}

// Access is the secret with which jobs connect to a node.
type Access struct {
	Node           string          `json:"node"`
	ConnectionType string          `json:"connection_type" doc:"The connection type of the node, such as namespace, project or kubectl."`
	Credentials    json.RawMessage `json:"credentials" doc:"The object that Zuul expects as connection_port for this connection type, such as the address of the API server, a namespace and a token."`
}

// Hold sets the reason and the end of a hold.
type Hold struct {
	Reason string    `json:"reason,omitempty" maxLength:"1024"`
	Until  time.Time `json:"until,omitzero" doc:"The end of the hold. Default: when max_hold_age has passed."`
}

// Pause sets the reason of a pause.
type Pause struct {
	Reason string `json:"reason,omitempty" maxLength:"1024"`
}

// Image is an image with its builds and uploads.
type Image struct {
	Name           string                        `json:"name"`
	Kind           resources.ImageKind           `json:"kind"`
	Configured     bool                          `json:"configured"`
	Paused         bool                          `json:"paused" doc:"By command or by the configuration."`
	PauseReason    string                        `json:"pause_reason,omitempty"`
	Failure        *resources.Failure            `json:"failure,omitempty" doc:"Failures of builds since the last successful build."`
	UploadFailures map[string]*resources.Failure `json:"upload_failures,omitempty" doc:"By provider."`
	Builds         []resources.Build             `json:"builds" doc:"Newest first."`
	Uploads        []resources.Upload            `json:"uploads"`
}

// Images is the list of images.
type Images struct {
	Images []Image `json:"images"`
}

// Provider is a cloud project, or a set of static machines.
type Provider struct {
	Name          string                    `json:"name"`
	Driver        string                    `json:"driver"`
	Configured    bool                      `json:"configured"`
	Served        bool                      `json:"served" doc:"Whether this daemon serves the provider."`
	Frozen        bool                      `json:"frozen" doc:"Frozen by command, or not served by this daemon."`
	Leader        *state.Holder             `json:"leader,omitempty" doc:"The process that leads the provider while this daemon is a standby."`
	Queried       bool                      `json:"queried" doc:"Whether the provider was listed since the daemon started, successfully or not."`
	Error         string                    `json:"error,omitempty" doc:"Why the provider could not be listed."`
	ListedAt      time.Time                 `json:"listed_at,omitzero" doc:"The time of the newest successful listing."`
	Priority      int64                     `json:"priority"`
	Location      string                    `json:"location,omitempty" doc:"Such as a project in a region."`
	Quota         *Quota                    `json:"quota,omitempty" doc:"Quota of the project, including use by others. A limit of -1 means unlimited."`
	Use           resources.ResourceAmounts `json:"use" doc:"Resources that nodes of npctl use."`
	Nodes         map[resources.State]int   `json:"nodes" doc:"Number of nodes by state."`
	Pools         []Pool                    `json:"pools"`
	LaunchFailure *resources.Failure        `json:"launch_failure,omitempty" doc:"Failures of launches since the last successful launch."`
	Instances     int                       `json:"instances" doc:"Number of instances in the project, of npctl and of others."`
	Leftovers     int                       `json:"leftovers" doc:"Number of ports, addresses and volumes with ownership tags of npctl."`
}

// Quota is the quota of a project and its use.
type Quota struct {
	Limit resources.ResourceAmounts `json:"limit"`
	Used  resources.ResourceAmounts `json:"used"`
}

// Pool is a part of a provider with its own limits.
type Pool struct {
	Name       string                    `json:"name"`
	MaxServers *int64                    `json:"max_servers,omitempty"`
	MaxCores   *int64                    `json:"max_cores,omitempty"`
	MaxRAM     *int64                    `json:"max_ram,omitempty"`
	Use        resources.ResourceAmounts `json:"use"`
	Labels     []string                  `json:"labels"`
	Machines   int                       `json:"machines,omitempty" doc:"Static nodes."`
}

// Providers is the list of providers.
type Providers struct {
	Providers []Provider `json:"providers"`
}

// Label is a label with its nodes and offers.
type Label struct {
	Name        string                  `json:"name"`
	MinReady    int64                   `json:"min_ready"`
	MaxReadyAge int64                   `json:"max_ready_age_seconds,omitempty"`
	Nodes       map[resources.State]int `json:"nodes" doc:"Number of nodes by state."`
	Free        int                     `json:"free" doc:"Number of nodes that are ready and not assigned."`
	Waiting     int                     `json:"waiting_requests"`
	Offers      []Offer                 `json:"offers"`
}

// Offer is the way in which a pool creates nodes of a label.
type Offer struct {
	Provider      string                    `json:"provider"`
	Pool          string                    `json:"pool"`
	Static        bool                      `json:"static,omitempty" doc:"Whether the nodes are static."`
	Slots         int64                     `json:"slots,omitempty" doc:"Number of slots of the static nodes."`
	Image         string                    `json:"image,omitempty"`
	Flavor        string                    `json:"flavor,omitempty"`
	Price         float64                   `json:"price_per_hour,omitempty" doc:"Price of one node and hour, from prices of the provider."`
	Resources     resources.ResourceAmounts `json:"resources,omitzero" doc:"Resources that one node uses."`
	Problems      []string                  `json:"problems,omitempty" doc:"Why the pool cannot launch such nodes."`
	LaunchFailure *resources.Failure        `json:"launch_failure,omitempty"`
}

// Labels is the list of labels.
type Labels struct {
	Labels []Label `json:"labels"`
}

// Step is a running or planned step.
type Step struct {
	ID       string   `json:"id"`
	Address  string   `json:"address"`
	Action   string   `json:"action"`
	Thing    string   `json:"thing"`
	Reason   string   `json:"action_reason"`
	Text     string   `json:"action_reason_text"`
	Record   string   `json:"record,omitempty" doc:"The record that the step changes, such as node/0000000001."`
	Image    string   `json:"image,omitempty"`
	Provider string   `json:"provider,omitempty"`
	Pool     string   `json:"pool,omitempty"`
	Label    string   `json:"label,omitempty"`
	Request  string   `json:"request,omitempty"`
	Needs    []string `json:"needs,omitempty" doc:"IDs of steps that must complete first."`
	Estimate float64  `json:"estimate_seconds,omitempty" doc:"Expected duration, from the history."`
}

// Steps is the list of running steps.
type Steps struct {
	Steps []Step `json:"steps"`
}

// Event is an event of the journal.
type Event struct {
	Number uint64 `json:"number" doc:"Ascending; restarts with each daemon."`
	resources.Event
}

// Events is a part of the journal, oldest event first.
type Events struct {
	Events []Event `json:"events"`
	Next   string  `json:"next" doc:"The value of after for later events. It stays valid when the daemon restarts."`
}

// Reload sets the options of a reload.
type Reload struct {
	AllowDestroy bool   `json:"allow_destroy,omitempty" doc:"Consents to deletions that need consent."`
	From         string `json:"from,omitempty" doc:"Digest of the configuration that has to be in force; otherwise nothing is reloaded."`
	To           string `json:"to,omitempty" doc:"Digest that the new configuration has to have; otherwise it is rejected."`
	Actor        string `json:"actor,omitempty" maxLength:"1024" doc:"Who reloads, as the client says, for the audit record."`
	Reviewed     string `json:"reviewed,omitempty" maxLength:"64" doc:"Digest of the reviewed effect, for the audit record."`

	Overrides []string `json:"overrides,omitempty" maxItems:"100" doc:"Failures of checks that were accepted, with the reasons, for the audit record."`
}

// Reloaded summarizes the plan for a new configuration.
type Reloaded struct {
	Summary string `json:"summary" doc:"Summary of the plan, such as: Plan: 1 to build, 1 to upload, 2 to launch, 0 to delete."`
	Steps   []Step `json:"steps"`
}

// AuditRecords is a part of the audit records, oldest first.
type AuditRecords struct {
	Records []*resources.Audit `json:"records"`
}

// Why explains the state of an object.
type Why struct {
	Subject string   `json:"subject" doc:"Such as node/0000000001, request/0000000007, label/debian, image/debian or provider/one."`
	State   string   `json:"state,omitempty"`
	Summary string   `json:"summary" doc:"One sentence."`
	Waits   []Wait   `json:"waits_for" doc:"What the object waits for, the most important first; empty when it waits for nothing."`
	Facts   []Fact   `json:"facts"`
	Running []Step   `json:"running" doc:"Running steps of the object."`
	Planned []Step   `json:"planned" doc:"Planned steps of the object that have not started."`
	Related []string `json:"related" doc:"Related subjects."`
	Events  []Event  `json:"events" doc:"The newest events of the object, oldest first."`
}

// Wait is a condition that an object waits for.
type Wait struct {
	Code string `json:"code" doc:"Such as quota, launch, provider-error, frozen, build, requestor, lease, hold."`
	Text string `json:"text"`
}

// Fact is a named value.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Status is a summary of the daemon's state.
type Status struct {
	Version       string                  `json:"npctl_version"`
	Installation  string                  `json:"installation" doc:"The lineage of the state."`
	PID           int                     `json:"pid"`
	Host          string                  `json:"host"`
	Started       time.Time               `json:"started"`
	Now           time.Time               `json:"now"`
	Ready         bool                    `json:"ready" doc:"Whether every served provider was listed since the daemon started."`
	NotReady      string                  `json:"not_ready,omitempty"`
	SuspendedBy   string                  `json:"suspended_by,omitempty" doc:"The client for which the daemon starts no steps, such as npctl apply."`
	Requests      map[resources.State]int `json:"requests"`
	OldestRequest time.Time               `json:"oldest_open_request,omitzero" doc:"The creation time of the oldest open request."`
	Shadow        map[string]int          `json:"shadow,omitzero" doc:"With npctl watch -shadow: number of compared requests by result, see npctl_shadow_requests_total. Absent otherwise."`
	Nodes         map[resources.State]int `json:"nodes"`
	Free          int                     `json:"free_nodes" doc:"Number of nodes that are ready and not assigned."`
	Running       int                     `json:"running_steps"`
	Plan          string                  `json:"plan" doc:"The summary of the newest plan."`
	Cost          resources.Cost          `json:"cost,omitzero" doc:"The cost of the nodes, by the prices of their providers; absent without prices."`
	Problems      []string                `json:"problems" doc:"Errors that prevent steps from being planned, and failing builds and uploads of images."`
	Config        Configuration           `json:"configuration" doc:"The result of loading the newest configuration, and pending deletions."`
	PassSeconds   float64                 `json:"pass_seconds" doc:"Duration of the newest pass."`
	PassAt        time.Time               `json:"pass_at,omitzero"`
}

// Configuration is the result of loading the newest configuration, with the pending deletions of the one in effect.
type Configuration struct {
	LoadedAt         time.Time `json:"loaded_at" doc:"When the configuration in force was read."`
	RejectedAt       time.Time `json:"rejected_at,omitzero" doc:"When a newer configuration was rejected."`
	Error            string    `json:"error,omitempty" doc:"Why the newer configuration was rejected."`
	ConsentRequired  string    `json:"consent_required,omitempty" doc:"Why deletions need consent."`
	PendingDeletions []string  `json:"pending_deletions,omitempty" doc:"Addresses of the deletions that need consent."`
	StateOutdated    string    `json:"state_outdated,omitempty" doc:"Why npctl deletes no objects without a record: the state is older than the clouds."`
}

// Health is the response of a health check.
type Health struct {
	Status string   `json:"status" doc:"ok, or not ready."`
	Notes  []string `json:"notes,omitempty" doc:"Conditions that need attention although the daemon is ready: a rejected configuration, deletions that need consent, a state older than the clouds."`
	Why    string   `json:"why,omitempty"`
	Waits  []string `json:"waits_for,omitempty" doc:"Providers that were never listed successfully."`
}

// Problem is an error as defined by RFC 9457.
type Problem struct {
	Type   string `json:"type" doc:"about:blank"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   Code   `json:"code" doc:"For programs."`
	Hint   string `json:"hint,omitempty" doc:"What to do next."`
	// Lock is the requested lock, if another holder has it.
	Lock *Lock `json:"lock,omitempty"`
	// PendingDeletions lists the deletions of a new configuration that needs consent.
	PendingDeletions []string `json:"pending_deletions,omitempty"`
	Report           string   `json:"report,omitempty" doc:"The errors of a rejected configuration, as npctl validate prints them."`
}

// Code identifies a kind of error.
type Code string

// The codes.
const (
	CodeInvalid              Code = "invalid"               // the call is not valid
	CodeUnauthorized         Code = "unauthorized"          // no token, or an unknown one
	CodeForbidden            Code = "forbidden"             // the token's role does not allow the call
	CodeNotFound             Code = "not-found"             // the object does not exist
	CodeInvalidState         Code = "invalid-state"         // the state of the object does not allow the call
	CodeConflict             Code = "conflict"              // another process has changed the record
	CodeLocked               Code = "locked"                // another holder has the lock
	CodeLost                 Code = "lost"                  // a lock was lost, and nothing was written
	CodeConsentRequired      Code = "consent-required"      // a new configuration would delete much
	CodeInvalidConfiguration Code = "invalid-configuration" // the new configuration has mistakes
	CodeTooLarge             Code = "too-large"             // the body exceeds the limit
	CodeMediaType            Code = "media-type"            // the body is not JSON
	CodeMethod               Code = "method"                // the path does not support the method
	CodeBusy                 Code = "busy"                  // too many concurrent calls
	CodeThrottled            Code = "throttled"             // too many invalid tokens from one address
	CodeTooManyRequests      Code = "too-many-requests"     // max_requests is reached
	CodeTimeout              Code = "timeout"               // the body, or the call, took too long
	CodeNotReady             Code = "not-ready"             // the daemon is starting or stopping
	CodeInternal             Code = "internal"              // an error in the daemon
	CodeUnsupported          Code = "not-supported"         // this state or daemon does not support the call
)

// RequestFilter selects requests. Empty fields match all requests.
type RequestFilter struct {
	States                   []string
	Label, Tenant, Requestor string
}

// Matches reports whether the filter selects a request.
func (f RequestFilter) Matches(r *resources.Request) bool {
	return isOneOf(f.States, r.State) && isIn(f.Label, r.Labels) && is(f.Tenant, r.Tenant) && is(f.Requestor, r.Requestor)
}

// NodeFilter selects nodes. Empty fields match all nodes.
type NodeFilter struct {
	States                                 []string
	Label, Provider, Pool, Request, Tenant string
}

// Matches reports whether the filter selects a node.
func (f NodeFilter) Matches(n *resources.Node) bool {
	return isOneOf(f.States, n.State) && isIn(f.Label, n.Labels) && is(f.Provider, n.Provider) && is(f.Pool, n.Pool) &&
		is(f.Request, n.Request) && is(f.Tenant, n.Tenant)
}

// CheckStates returns an error for a state that records of the kind cannot have.
func CheckStates(kind resources.Kind, states []string) error {
	var known []string
	for _, s := range resources.StatesOf(kind) {
		known = append(known, string(s))
	}
	for _, state := range states {
		if !slices.Contains(known, state) {
			return fmt.Errorf("a %s cannot be in state %q; its states are %s", kind, state, strings.Join(known, ", "))
		}
	}
	return nil
}

func isOneOf(states []string, state resources.State) bool {
	return len(states) == 0 || slices.Contains(states, string(state))
}

func isIn(wanted string, list []string) bool { return wanted == "" || slices.Contains(list, wanted) }

func is(wanted, value string) bool { return wanted == "" || value == wanted }
