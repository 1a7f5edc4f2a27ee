package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
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
	remove    []state.Entry      // entries to remove from ZooKeeper
	migrated  []resources.Record // in their form for the file
	notes     []resources.Record // private records of the process
	sequences map[resources.Kind]uint64
	left      int // number of records of other configurations
	paused    []string
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
	if source.providers, err = source.known(ctx, m.Desired); err != nil {
		return err
	}
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
	if err := source.load(ctx, m.Desired); err != nil {
		return err
	}
	m.count(source)
	if m.To.File == m.From.File || !exists(m.To.File) {
		return nil
	}
	target, about, err := m.openAny(m.To.File)
	if err != nil {
		return err
	}
	return errors.Join(m.checkTarget(ctx, target, about, source), target.Close())
}

func (m *migration) count(source *sharedSource) {
	m.report.count(source.migrated, comparison{}, source.notes, 0)
	m.report.LeftBehind = source.left
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
	err = source.load(ctx, m.Desired)
	if err == nil {
		err = m.noteFrozen(source)
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
		m.count(source)
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

// known returns the providers of the configuration and of the records in the private file.
func (s *sharedSource) known(ctx context.Context, want resources.Desired) (map[string]bool, error) {
	providers := map[string]bool{}
	for i := range want.Providers {
		providers[want.Providers[i].Name] = true
	}
	entries, err := s.private.List(ctx, resources.KindProvider)
	for _, e := range entries {
		providers[e.Record.Key().ID] = true
	}
	return providers, err
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

// load selects the records of this configuration and converts them for the file.
func (s *sharedSource) load(ctx context.Context, want resources.Desired) error {
	entries, err := s.List(ctx)
	if err != nil {
		return err
	}
	own := func(r *resources.Request) bool { return strings.HasPrefix(r.Requestor, plan.OwnRequestor) }
	if err := openRequests(entries, own); err != nil {
		return err
	}
	chosen, foreign := s.selectRecords(entries, want)
	var records []resources.Record
	for _, e := range chosen {
		records = append(records, e.Record)
	}
	if err := inUseByOthers(records, s.Claimed()); err != nil {
		return err
	}
	s.remove = chosen[:0:0]
	for _, e := range chosen {
		if !foreign[e.Record.Key()] {
			s.remove = append(s.remove, e)
		}
	}
	if err := s.number(ctx); err != nil {
		return err
	}
	ids, highest := numberUploads(records, s.sequences[resources.KindUpload])
	s.sequences[resources.KindUpload] = highest
	for _, r := range records {
		s.migrated = append(s.migrated, forFile(r, ids))
	}
	sortCargo(s.migrated)
	return nil
}

// selectRecords returns the entries of this configuration's providers and images. A build with uploads in other
// providers is foreign: it is copied and stays in ZooKeeper.
func (s *sharedSource) selectRecords(entries []state.Entry, want resources.Desired) (chosen []state.Entry, foreign map[resources.Key]bool) {
	needed, foreign := map[string]bool{}, map[resources.Key]bool{}
	for _, e := range entries {
		if u, ok := e.Record.(*resources.Upload); ok {
			if s.providers[u.Provider] {
				needed[u.Build] = true
			} else {
				foreign[resources.Key{Kind: resources.KindBuild, ID: u.Build}] = true
			}
		}
	}
	for _, e := range entries {
		ours := false
		switch r := e.Record.(type) {
		case *resources.Node:
			ours = s.providers[r.Provider]
		case *resources.Upload:
			ours = s.providers[r.Provider]
		case *resources.Build:
			ours = needed[r.ID] || isConfigured(want, r.Image)
		case *resources.Request:
			continue
		case *resources.ImageRecord:
			if e.Revision == 0 { // other processes paused it, and this one has no record of it
				continue
			}
			if s.notes = append(s.notes, r); r.Paused {
				s.paused = append(s.paused, r.Name)
			}
			continue
		default:
			s.notes = append(s.notes, e.Record)
			continue
		}
		if ours {
			chosen = append(chosen, e)
		} else {
			s.left++
		}
	}
	return chosen, foreign
}

// number finds the highest IDs that the private file and ZooKeeper have assigned.
func (s *sharedSource) number(ctx context.Context) error {
	about, err := s.private.FileInfo(ctx)
	if err != nil {
		return err
	}
	s.sequences = map[resources.Kind]uint64{}
	for kind, last := range about.Sequences {
		s.sequences[kind] = last
	}
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload} {
		last, err := s.LastID(ctx, kind)
		if err != nil {
			return err
		}
		s.sequences[kind] = max(s.sequences[kind], last)
	}
	return nil
}

// writeFile writes the file in one transaction and reads it back.
func (m *migration) writeFile(ctx context.Context, source *sharedSource, target *bolt.Store, move string) error {
	doc := bolt.NewDocument(m.Version)
	doc.Lineage, doc.Serial, doc.MigrationID, doc.Sequences = source.identity.Lineage, source.identity.Serial, move, source.sequences
	doc.HashKey = source.identity.HashKey
	for _, records := range [][]resources.Record{source.migrated, source.notes} {
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
	if err := verifyCargo(source.migrated, byKey(entries)); err != nil {
		return err
	}
	m.report.Verified = len(source.migrated)
	return nil
}

// removeAtOnce is the number of records that one commit removes, with all znodes below them.
const removeAtOnce = 50

// removeAll removes the moved records from ZooKeeper: nodes first, so that no record refers to a removed one.
func (m *migration) removeAll(ctx context.Context, source *sharedSource) error {
	for _, kind := range slices.Backward(migratedKinds) {
		var ops []state.Op
		for _, e := range source.remove {
			if key := e.Record.Key(); key.Kind == kind {
				ops = append(ops, state.Op{Key: key, Force: true})
			}
		}
		for piece := range slices.Chunk(ops, removeAtOnce) {
			if _, err := source.Commit(ctx, piece...); err != nil {
				return err
			}
			if err := m.After("removed"); err != nil {
				return err
			}
		}
	}
	if err := source.unpause(ctx); err != nil {
		return err
	}
	return source.unfreezeProviders(ctx)
}

// unfreezeProviders clears the freeze flags of the moved providers in ZooKeeper; the file contains them.
func (s *sharedSource) unfreezeProviders(ctx context.Context) error {
	for _, provider := range s.FrozenProviders() {
		if !s.providers[provider] {
			continue
		}
		if err := s.FreezeProvider(ctx, provider, false); err != nil {
			return err
		}
	}
	return nil
}

// noteFrozen adds a record for each configured provider that is frozen and has no record in the private file. An
// existing record contains the flag already.
func (m *migration) noteFrozen(source *sharedSource) error {
	frozen := source.FrozenProviders()
	for i := range m.Desired.Providers {
		p := &m.Desired.Providers[i]
		has := slices.ContainsFunc(source.notes, func(r resources.Record) bool {
			return r.Key() == resources.Key{Kind: resources.KindProvider, ID: p.Name}
		})
		if has || !slices.Contains(frozen, p.Name) {
			continue
		}
		record, err := m.ProviderRecord(p)
		if err != nil {
			return err
		}
		record.Frozen = true
		source.notes = append(source.notes, record)
	}
	return nil
}

// unpause clears the pause flags of the moved images that have no builds left in ZooKeeper.
func (s *sharedSource) unpause(ctx context.Context) error {
	entries, err := s.List(ctx, resources.KindBuild)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, e := range entries {
		has[e.Record.(*resources.Build).Image] = true
	}
	for _, image := range s.paused {
		if has[image] {
			continue
		}
		if err := s.PauseImage(ctx, image, false); err != nil {
			return err
		}
	}
	return nil
}
