package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/state/zookeeper"
)

// The migration of a state from ZooKeeper to a file may be interrupted at any point:
//
//  1. ZooKeeper records the ID of the migration, and no process serves the providers.
//  2. The file receives all records and that ID in one transaction. It is read back and compared.
//  3. If the private file is another file, it records that the state has moved.
//  4. The records are removed from ZooKeeper in batches, and then the ID of the migration.
//
// A file with the ID of the migration is complete: only steps 3 and 4 remain.

// sharedSource is the state in ZooKeeper that moves to a file.
type sharedSource struct {
	*zookeeper.Store
	private   *bolt.Store
	identity  state.Identity
	providers map[string]bool
	plan      exportPlan
}

func (m *migration) intoFile(ctx context.Context) (err error) {
	private, about, err := m.openAny(m.From.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, private.Close()) }()
	source := &sharedSource{private: private}
	if !m.DryRun {
		lock, err := m.Lock(ctx, private)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unlockAll(ctx, []state.Lock{lock})) }()
	}
	if source.Store, err = m.openSource(ctx, private); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if source.identity, err = source.Identity(ctx); err != nil {
		return err
	}
	if source.identity.Lineage == "" {
		return hints.Add(fmt.Errorf("%w: %s has none", errNothing, m.From), "-from-config names the configuration whose state block has its location")
	}
	m.report = Report{From: m.From.String(), To: m.To.String(), Lineage: source.identity.Lineage, DryRun: m.DryRun}
	return m.moveToFile(ctx, source, about)
}

// openSource opens ZooKeeper. A private file that is in use contains the lineage of its state.
func (m *migration) openSource(ctx context.Context, private *bolt.Store) (*zookeeper.Store, error) {
	id, err := private.Identity(ctx)
	if err != nil {
		return nil, err
	}
	opts := *m.From.Shared
	opts.Private, opts.Version, opts.Log, opts.OpenTimeout, opts.ReadOnly = private, m.Version, m.Log, m.OpenTimeout, m.DryRun
	if id.Serial > 0 {
		opts.Lineage = id.Lineage
	}
	return zookeeper.Open(ctx, opts)
}

func (m *migration) moveToFile(ctx context.Context, source *sharedSource, about bolt.FileInfo) (err error) {
	records, err := source.private.List(ctx, resources.KindProvider)
	if err != nil {
		return err
	}
	source.providers = providersKnown(m.Desired, records)
	if err := servedByOthers(source.RegisteredPools(), source.providers); err != nil {
		return err
	}
	if m.DryRun {
		return m.tryOut(ctx, source)
	}
	locks, err := m.takeProviders(ctx, source.Store, source.providers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlockAll(ctx, locks)) }()
	if err := source.Sync(ctx); err != nil {
		return err
	}
	target := source.private
	if m.To.File != m.From.File {
		if target, about, err = m.openAny(m.To.File); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, target.Close()) }()
	}
	return m.takeOver(ctx, source, target, about)
}

// tryOut reports what a migration would move.
func (m *migration) tryOut(ctx context.Context, source *sharedSource) error {
	if err := m.load(ctx, source); err != nil {
		return err
	}
	m.count(source.plan)
	if m.To.File == m.From.File || location.InFile(m.To.File).IsEmpty() {
		return nil
	}
	target, about, err := m.openAny(m.To.File)
	if err != nil {
		return err
	}
	return errors.Join(m.checkTarget(ctx, target, about, source), target.Close())
}

func (m *migration) count(p exportPlan) {
	m.report.count(p.records, comparison{}, p.private, 0)
	m.report.LeftBehind = p.left
}

// takeOver moves the state. If it fails before it writes the file, it cancels the migration in ZooKeeper.
func (m *migration) takeOver(ctx context.Context, source *sharedSource, target *bolt.Store, about bolt.FileInfo) error {
	move, err := source.BeginExport(ctx)
	if err != nil {
		return err
	}
	if err := m.After("announced"); err != nil {
		return err
	}
	if err = m.load(ctx, source); err == nil {
		err = m.noteFrozen(&source.plan)
	}
	if arrived := about.MigrationID == move; !arrived {
		if err == nil {
			err = m.checkTarget(ctx, target, about, source)
		}
		if err != nil {
			return errors.Join(err, source.EndExport(context.WithoutCancel(ctx)))
		}
		err = m.writeFile(ctx, source, target, move)
	}
	if err == nil {
		m.count(source.plan)
		err = m.After("arrived")
	}
	if err == nil && target != source.private {
		err = errors.Join(source.private.ConvertRole(ctx, bolt.RoleChange{Role: bolt.RoleMigrated, Location: m.To.String()}), m.After("settled"))
	}
	if err == nil {
		err = m.removeAll(ctx, source)
	}
	if err != nil {
		return err
	}
	return source.EndExport(ctx)
}

// load reads the records and decides what moves.
func (m *migration) load(ctx context.Context, source *sharedSource) error {
	in := exportInput{claimed: source.Claimed(), frozen: source.FrozenProviders(), providers: source.providers, desired: m.Desired,
		sequences: map[resources.Kind]uint64{}}
	var err error
	if in.entries, err = source.List(ctx); err != nil {
		return err
	}
	about, err := source.private.FileInfo(ctx)
	if err != nil {
		return err
	}
	maps.Copy(in.sequences, about.Sequences)
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload} {
		last, err := source.LastID(ctx, kind)
		if err != nil {
			return err
		}
		in.sequences[kind] = max(in.sequences[kind], last)
	}
	source.plan, err = planExport(in)
	return err
}

// noteFrozen adds a record for each frozen provider without one. An existing record contains the flag already.
func (m *migration) noteFrozen(p *exportPlan) error {
	for _, provider := range p.unrecorded {
		record, err := m.ProviderRecord(provider)
		if err != nil {
			return err
		}
		record.Frozen = true
		p.private = append(p.private, record)
	}
	return nil
}

// checkTarget returns an error if the target file is in use, unless it is the private file of the source or a file from
// which the same state moved.
func (m *migration) checkTarget(ctx context.Context, target *bolt.Store, about bolt.FileInfo, source *sharedSource) error {
	id, err := target.Identity(ctx)
	if err != nil || id.Serial == 0 || about.Role == bolt.RolePrivate && m.To.File == m.From.File || about.Role == bolt.RoleMigrated && id.Lineage == source.identity.Lineage {
		return err
	}
	return hints.Add(fmt.Errorf("%s exists, and is not the file that the state came from", m.To.File), "move it away, or name another file")
}

// writeFile writes the file in one transaction and reads it back.
func (m *migration) writeFile(ctx context.Context, source *sharedSource, target *bolt.Store, move string) error {
	doc := bolt.NewDocument(m.Version)
	doc.Lineage, doc.Serial, doc.MigrationID, doc.Sequences = source.identity.Lineage, source.identity.Serial, move, source.plan.sequences
	doc.HashKey = source.identity.HashKey
	for _, records := range [][]resources.Record{source.plan.records, source.plan.private} {
		for _, r := range records {
			if err := doc.Add(r); err != nil {
				return err
			}
		}
	}
	if err := target.ReplaceAll(ctx, doc, bolt.RoleChange{Role: bolt.RoleState}); err != nil {
		return err
	}
	entries, err := target.List(ctx)
	if err != nil {
		return err
	}
	if err := verifyCargo(source.plan.records, byKey(entries)); err != nil {
		return err
	}
	m.report.Verified = len(source.plan.records)
	return nil
}

// removeAll removes the moved records and their flags from ZooKeeper.
func (m *migration) removeAll(ctx context.Context, source *sharedSource) error {
	for _, piece := range source.plan.remove {
		if _, err := source.Commit(ctx, piece...); err != nil {
			return err
		}
		if err := m.After("removed"); err != nil {
			return err
		}
	}
	for _, image := range source.plan.unpause {
		if err := source.PauseImage(ctx, image, false); err != nil {
			return err
		}
	}
	for _, provider := range source.plan.unfreeze {
		if err := source.FreezeProvider(ctx, provider, false); err != nil {
			return err
		}
	}
	return nil
}
