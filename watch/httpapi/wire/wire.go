// Package wire defines the JSON types of the daemon's HTTP API.
//
// The format only grows: names keep their meaning, and clients ignore unknown names in responses. The daemon decodes
// calls strictly and rejects unknown names.
package wire

import (
	"encoding/json"
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
	Labels           []string        `json:"labels" limits:"minItems=1,maxItems=100,items.minLength=1,items.maxLength=1024" doc:"What is asked for: one node each, all in one pool of one provider. A label may come several times."`
	Priority         *int64          `json:"priority,omitempty" limits:"minimum=1,maximum=999" doc:"From 1 to 999; lower goes first. 200 when it is not given."`
	RelativePriority int64           `json:"relative_priority,omitempty" doc:"Orders requests of one priority; lower goes first."`
	Requestor        string          `json:"requestor,omitempty" limits:"maxLength=1024" doc:"Who asks, for people."`
	Tenant           string          `json:"tenant,omitempty" limits:"maxLength=1024" doc:"Whose limits it counts against."`
	EventID          string          `json:"event_id,omitempty" limits:"maxLength=1024" doc:"What it is about, passed on unchanged."`
	Provider         string          `json:"provider,omitempty" limits:"maxLength=1024" doc:"The only provider that will do."`
	Data             json.RawMessage `json:"data,omitempty" doc:"Any JSON up to 64 KiB, passed on unchanged. It is no place for secrets."`
	Deadline         time.Time       `json:"deadline,omitzero" doc:"When it fails unless it is fulfilled."`
	Fresh            bool            `json:"fresh,omitempty" doc:"Only nodes that are launched for it will do."`
}

// Request is a request for nodes.
type Request struct {
	resources.Request
	Assigned []string `json:"assigned,omitempty" doc:"Ids of the nodes that are set aside or on their way for it while it is pending."`
}

// Requests is a page of a list of requests.
type Requests struct {
	Requests []Request `json:"requests"`
	Next     string    `json:"next,omitempty" doc:"The value of after for the next page; absent on the last one."`
}

// Take sets the holder and the lease of the nodes of a request.
type Take struct {
	Holder string `json:"holder,omitempty" limits:"maxLength=1024" doc:"Who takes them. Renewing the lease needs the same name."`
	Lease  int64  `json:"lease_seconds,omitempty" limits:"minimum=0,maximum=86400" doc:"From 5 to 86400: the nodes come back by themselves when nobody renews their lease for so long. 0: no lease."`
}

// Node is a node.
type Node struct {
	resources.Node
	Step string `json:"step,omitempty" doc:"What is being done to it right now."`
}

// Nodes is a page of a list of nodes.
type Nodes struct {
	Nodes []Node `json:"nodes"`
	Next  string `json:"next,omitempty" doc:"The value of after for the next page; absent on the last one."`
}

// Renew names the holder that renews a lease.
type Renew struct {
	Holder string `json:"holder,omitempty" limits:"maxLength=1024" doc:"The name that the node was taken under."`
}

// Hold sets the reason and the end of a hold.
type Hold struct {
	Reason string    `json:"reason,omitempty" limits:"maxLength=1024"`
	Until  time.Time `json:"until,omitzero" doc:"When absent: for as long as max_hold_age allows."`
}

// Pause sets the reason of a pause.
type Pause struct {
	Reason string `json:"reason,omitempty" limits:"maxLength=1024"`
}

// Image is an image with its builds and uploads.
type Image struct {
	Name           string                        `json:"name"`
	Kind           resources.ImageKind           `json:"kind"`
	Configured     bool                          `json:"configured"`
	Paused         bool                          `json:"paused" doc:"By command or in the configuration."`
	PauseReason    string                        `json:"pause_reason,omitempty"`
	Failure        *resources.Failure            `json:"failure,omitempty" doc:"Of its builds, from a failure until one works again."`
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
	Served        bool                      `json:"served" doc:"By this daemon."`
	Frozen        bool                      `json:"frozen" doc:"Left alone by command, or not served here."`
	Leader        *state.Holder             `json:"leader,omitempty" doc:"The process that serves it. This daemon takes over when that one ends."`
	Queried       bool                      `json:"queried" doc:"It was looked at since the daemon began, whether it answered or not."`
	Error         string                    `json:"error,omitempty" doc:"Why it could not be queried."`
	ListedAt      time.Time                 `json:"listed_at,omitzero" doc:"When it last answered."`
	Priority      int64                     `json:"priority"`
	Location      string                    `json:"location,omitempty" doc:"What it leads to, such as a project in a region."`
	Quota         *Quota                    `json:"quota,omitempty" doc:"Of the project, others' use included. A limit of -1 is none."`
	Use           resources.ResourceAmounts `json:"use" doc:"What our nodes take there."`
	Nodes         map[resources.State]int   `json:"nodes" doc:"Their number by state."`
	Pools         []Pool                    `json:"pools"`
	LaunchFailure *resources.Failure        `json:"launch_failure,omitempty" doc:"Of its launches, from a failure until one works again."`
	Instances     int                       `json:"instances" doc:"Machines seen in it, whoever they belong to."`
	Leftovers     int                       `json:"leftovers" doc:"Ports, addresses and volumes seen in it that carry marks."`
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
	Nodes       map[resources.State]int `json:"nodes" doc:"Their number by state."`
	Free        int                     `json:"free" doc:"Ready and set aside for nobody."`
	Waiting     int                     `json:"waiting_requests"`
	Offers      []Offer                 `json:"offers"`
}

// Offer is the way in which a pool creates nodes of a label.
type Offer struct {
	Provider      string                    `json:"provider"`
	Pool          string                    `json:"pool"`
	Static        bool                      `json:"static,omitempty" doc:"Machines that exist."`
	Slots         int64                     `json:"slots,omitempty" doc:"Of static machines."`
	Image         string                    `json:"image,omitempty"`
	Flavor        string                    `json:"flavor,omitempty"`
	Resources     resources.ResourceAmounts `json:"resources,omitzero" doc:"What one node takes of the quota."`
	Problems      []string                  `json:"problems,omitempty" doc:"Why no node can be made of it."`
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
	Record   string   `json:"record,omitempty" doc:"What it works on, such as node/0000000001."`
	Image    string   `json:"image,omitempty"`
	Provider string   `json:"provider,omitempty"`
	Pool     string   `json:"pool,omitempty"`
	Label    string   `json:"label,omitempty"`
	Request  string   `json:"request,omitempty"`
	Needs    []string `json:"needs,omitempty" doc:"Ids of steps that have to be done before."`
	Estimate float64  `json:"estimate_seconds,omitempty" doc:"How long such a step takes, from the history."`
}

// Steps is the list of running steps.
type Steps struct {
	Steps []Step `json:"steps"`
}

// Event is an event of the journal.
type Event struct {
	Number uint64 `json:"number" doc:"Grows; begins anew with each daemon."`
	resources.Event
}

// Events is a part of the journal, oldest event first.
type Events struct {
	Events []Event `json:"events"`
	Next   string  `json:"next" doc:"The value of after for what comes next. It holds over a restart of the daemon."`
}

// Reload sets the options of a reload.
type Reload struct {
	AllowDestroy bool `json:"allow_destroy,omitempty" doc:"Even if much would be removed."`
}

// Reloaded summarizes the plan for a new configuration.
type Reloaded struct {
	Summary string `json:"summary" doc:"Such as: Plan: 1 to build, 1 to upload, 2 to launch, 0 to delete."`
	Steps   []Step `json:"steps"`
}

// Why explains the state of an object.
type Why struct {
	Subject string   `json:"subject" doc:"Such as node/0000000001, request/0000000007, label/debian, image/debian or provider/one."`
	State   string   `json:"state,omitempty"`
	Summary string   `json:"summary" doc:"One sentence for people."`
	Waits   []Wait   `json:"waits_for" doc:"What it waits for, the most telling first; empty when it waits for nothing."`
	Facts   []Fact   `json:"facts"`
	Running []Step   `json:"running" doc:"What is being done to it."`
	Planned []Step   `json:"planned" doc:"What is decided and not begun."`
	Related []string `json:"related" doc:"Further subjects to ask about."`
	Events  []Event  `json:"events" doc:"The newest of what has happened to it, oldest first."`
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
	Ready         bool                    `json:"ready" doc:"Every provider that is served was looked at once."`
	NotReady      string                  `json:"not_ready,omitempty"`
	SuspendedBy   string                  `json:"suspended_by,omitempty" doc:"Who has asked the daemon to begin nothing, such as npctl apply."`
	Requests      map[resources.State]int `json:"requests"`
	OldestRequest time.Time               `json:"oldest_open_request,omitzero" doc:"When the oldest request that has no answer yet was made."`
	Shadow        map[string]int          `json:"shadow,omitzero" doc:"Of npctl watch -shadow: how many requests that others have answered compare how with what it would have done, see npctl_shadow_requests_total. Absent when it serves."`
	Nodes         map[resources.State]int `json:"nodes"`
	Free          int                     `json:"free_nodes" doc:"Ready and set aside for nobody."`
	Running       int                     `json:"running_steps"`
	Plan          string                  `json:"plan" doc:"The summary of the newest plan."`
	Problems      []string                `json:"problems" doc:"Mistakes that keep steps from being planned."`
	Config        Configuration           `json:"configuration" doc:"What became of the newest configuration, and what the one in force does not do."`
	PassSeconds   float64                 `json:"pass_seconds" doc:"How long the newest round of deciding took."`
	PassAt        time.Time               `json:"pass_at,omitzero"`
}

// Configuration is the result of loading the newest configuration, with the pending deletions of the one in effect.
type Configuration struct {
	LoadedAt         time.Time `json:"loaded_at" doc:"When the configuration in force was read."`
	RejectedAt       time.Time `json:"rejected_at,omitzero" doc:"When a newer configuration was refused; the one in force is older since."`
	Error            string    `json:"error,omitempty" doc:"Why the newer configuration was refused, with its mistakes."`
	ConsentRequired  string    `json:"consent_required,omitempty" doc:"Why deletions that the configuration asks for wait for consent."`
	PendingDeletions []string  `json:"pending_deletions,omitempty" doc:"What would be deleted."`
	StateOutdated    string    `json:"state_outdated,omitempty" doc:"Why nothing without a record is deleted: the state is older than the clouds."`
}

// Health is the response of a health check.
type Health struct {
	Status string   `json:"status" doc:"ok, or not ready."`
	Notes  []string `json:"notes,omitempty" doc:"What somebody should know all the same: a refused configuration, deletions that are held back, a state older than the clouds."`
	Why    string   `json:"why,omitempty"`
	Waits  []string `json:"waits_for,omitempty" doc:"Providers that nobody has looked at yet."`
}

// Problem is an error as defined by RFC 9457.
type Problem struct {
	Type   string `json:"type" doc:"about:blank"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   Code   `json:"code" doc:"What programs branch on."`
	Hint   string `json:"hint,omitempty" doc:"What to do about it."`
	// Lock is the requested lock, if another holder has it.
	Lock *Lock `json:"lock,omitempty"`
	// PendingDeletions lists the deletions of a new configuration that needs consent.
	PendingDeletions []string `json:"pending_deletions,omitempty"`
	Report           string   `json:"report,omitempty" doc:"The mistakes of a refused configuration, as npctl validate prints them."`
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
