// Package migrate moves a state between a file and ZooKeeper. An interrupted migration is resumed by the next run.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/location"
)

// Operation is the name of a migration in locks.
const Operation = "state migrate"

// Options describe a migration.
type Options struct {
	From, To location.Location
	// Desired is the configuration. Its providers and images select the records that move to a file.
	Desired     resources.Desired
	DryRun      bool
	LockTimeout time.Duration // for the locks of providers and images
	OpenTimeout time.Duration // for ZooKeeper
	Version     string
	Log         *slog.Logger

	// Lock takes the lock of the state.
	Lock func(ctx context.Context, store state.Store) (state.Lock, error)
	// ProviderRecord returns the record of a configured provider.
	ProviderRecord func(*resources.Provider) (*resources.ProviderRecord, error)
	// Progress is called after each batch of records.
	Progress func(written, all int)
	// After is called after each durable step; tests return an error to interrupt the migration there.
	After func(step string) error
}

// migration is one run of a migration.
type migration struct {
	Options
	report Report
	begun  bool // records may have been written
}

// Run moves a state, or only reports what it would move.
func Run(ctx context.Context, opts Options) (Report, error) {
	m := &migration{Options: opts}
	var err error
	switch {
	case m.From.Shared == nil && m.To.Shared != nil:
		err = m.intoZooKeeper(ctx)
	case m.From.Shared != nil && m.To.Shared == nil:
		err = m.intoFile(ctx)
	case m.From.Equal(m.To):
		err = hints.Add(fmt.Errorf("the state is %s already, as configured", m.To.Phrase()), "change the state block of the configuration first")
	default:
		err = hints.Add(errors.New("both locations are of the same kind"), "npctl state pull and npctl state push copy a file; a ZooKeeper is copied with its own tools")
	}
	return m.report, err
}

// Abandon makes the file at From the whole state again after an interrupted migration. It returns the location that the
// migration had copied records to.
func Abandon(ctx context.Context, opts Options) (elsewhere string, err error) {
	file, about, err := opts.openAny(opts.From.File)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if about.Role != bolt.RoleMigrating {
		return "", hints.Add(fmt.Errorf("the state in %s is not being migrated", opts.From.File), "-from names another file")
	}
	lock, err := opts.Lock(ctx, file)
	if err != nil {
		return "", err
	}
	return about.Location, errors.Join(file.ConvertRole(ctx, bolt.RoleChange{Role: bolt.RoleState}), lock.Unlock(ctx))
}

// openAny opens a state file of any role.
func (o *Options) openAny(path string) (*bolt.Store, bolt.FileInfo, error) {
	file, err := bolt.Open(bolt.Options{Path: path, Version: o.Version, AnyRole: true, ReadOnly: o.DryRun, Log: o.Log})
	if err != nil {
		return nil, bolt.FileInfo{}, err
	}
	about, err := file.FileInfo(context.Background())
	if err != nil {
		return nil, about, errors.Join(err, file.Close())
	}
	return file, about, nil
}

// unlockAll releases locks. It ignores lost locks, because the session of the process ends them as well.
func unlockAll(ctx context.Context, locks []state.Lock) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	var all error
	for _, lock := range locks {
		if err := lock.Unlock(ctx); err != nil && !errors.Is(err, state.ErrLost) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// unlockTimeout limits the time to release locks.
const unlockTimeout = 10 * time.Second

// Report states what a migration has moved, or would move. It is the document that npctl state migrate -json prints.
type Report struct {
	FormatVersion string `json:"format_version"`
	From          string `json:"from"`
	To            string `json:"to"`
	Lineage       string `json:"lineage"`
	DryRun        bool   `json:"dry_run,omitempty"`
	Nodes         int    `json:"nodes"`
	Uploads       int    `json:"uploads"`
	Builds        int    `json:"builds"`
	Private       int    `json:"private"`             // private records of one process
	There         int    `json:"unchanged,omitempty"` // written by an earlier run
	Verified      int    `json:"verified"`
	Requests      int    `json:"requests_dropped,omitempty"`
	LeftBehind    int    `json:"foreign,omitempty"` // records of other configurations
	Backup        string `json:"backup,omitempty"`
}

func (r *Report) count(cargo []resources.Record, found comparison, private []resources.Record, requests int) {
	r.Nodes, r.Uploads, r.Builds = 0, 0, 0
	for _, record := range cargo {
		switch record.Key().Kind {
		case resources.KindNode:
			r.Nodes++
		case resources.KindUpload:
			r.Uploads++
		case resources.KindBuild:
			r.Builds++
		}
	}
	r.Private, r.There, r.Requests = len(private), found.equal, requests
}
