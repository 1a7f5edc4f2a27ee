package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/zookeeper"
)

// How a state moves out of ZooKeeper, so that it may be cut short anywhere:
//
//  1. ZooKeeper remembers the id of the move, and nobody serves the providers.
//  2. The file takes all records in one transaction, with that id. It is read back and compared.
//  3. What one process has kept for itself says, if it is another file, that the state was moved.
//  4. The records are removed from ZooKeeper in pieces, and the id of the move at the end.
//
// A file with the id of the move has everything: then only 3 and 4 are left.

// sharedSource is the state in ZooKeeper that is to move.
type sharedSource struct {
	*zookeeper.Store
	private   *bolt.Store
	identity  state.Identity
	providers map[string]bool
	remove    []state.Entry      // to be taken away from there
	cargo     []resources.Record // as they will be
	notes     []resources.Record // what the process has kept for itself
	sequences map[resources.Kind]uint64
	left      int // records of others
	paused    []string
}

func (m *migration) intoFile(ctx context.Context) (err error) {
	private, about, err := m.openAny(m.from.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, private.Close()) }()
	source := &sharedSource{private: private}
	if !m.dryRun {
		lock, err := m.lock(ctx, private, "state migrate", m.lockTimeout)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unlockAll(ctx, []state.Lock{lock})) }()
	}
	if source.Store, err = m.leave(ctx, private); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if source.identity, err = source.Identity(ctx); err != nil {
		return err
	}
	if source.identity.Lineage == "" {
		return hint(fmt.Errorf("%w: %s has none", errNothing, m.from), "-from-config names the configuration whose state block says where it is")
	}
	m.report = migrationReport{FormatVersion: jsonVersion, From: m.from.String(), To: m.to.String(), Lineage: source.identity.Lineage, DryRun: m.dryRun}
	return m.takeOut(ctx, source, about)
}

// leave opens ZooKeeper. A private file that is used knows which state it belongs to.
func (m *migration) leave(ctx context.Context, private *bolt.Store) (*zookeeper.Store, error) {
	id, err := private.Identity(ctx)
	if err != nil {
		return nil, err
	}
	opts := *m.from.shared
	opts.Private, opts.Version, opts.Log, opts.OpenTimeout, opts.ReadOnly = private, version(), m.log, openTimeout, m.dryRun
	if id.Serial > 0 {
		opts.Lineage = id.Lineage
	}
	return zookeeper.Open(ctx, opts)
}

func (m *migration) takeOut(ctx context.Context, source *sharedSource, about bolt.About) (err error) {
	if source.providers, err = source.known(ctx, m.config.Desired); err != nil {
		return err
	}
	if err := servedByOthers(source.Peers(), source.providers); err != nil {
		return err
	}
	if m.dryRun {
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
	if m.to.file != m.from.file {
		if target, about, err = m.openAny(m.to.file); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, target.Close()) }()
	}
	return m.takeOver(ctx, source, target, about)
}

// tryOut says what would move.
func (m *migration) tryOut(ctx context.Context, source *sharedSource) error {
	if err := source.load(ctx, m.config.Desired); err != nil {
		return err
	}
	m.count(source)
	if m.to.file == m.from.file || !exists(m.to.file) {
		return nil
	}
	target, about, err := m.openAny(m.to.file)
	if err != nil {
		return err
	}
	return errors.Join(m.checkTarget(ctx, target, about, source), target.Close())
}

func (m *migration) count(source *sharedSource) {
	m.report.count(source.cargo, comparison{}, source.notes, 0)
	m.report.LeftBehind = source.left
}

// takeOver does what changes something. Before anything is written, the move is called off when it is refused.
func (m *migration) takeOver(ctx context.Context, source *sharedSource, target *bolt.Store, about bolt.About) error {
	move, err := source.Leave(ctx)
	if err != nil {
		return err
	}
	if err := m.after("announced"); err != nil {
		return err
	}
	err = source.load(ctx, m.config.Desired)
	if err == nil {
		err = m.noteFrozen(source)
	}
	if arrived := about.Move == move; !arrived {
		if err == nil {
			err = m.checkTarget(ctx, target, about, source)
		}
		if err != nil {
			return errors.Join(err, source.Left(context.WithoutCancel(ctx)))
		}
		err = m.takeIn(ctx, source, target, move)
	}
	if err == nil {
		m.count(source)
		err = m.after("arrived")
	}
	if err == nil && target != source.private {
		err = errors.Join(source.private.Turn(ctx, bolt.Turn{Role: bolt.Moved, Elsewhere: m.to.String()}), m.after("settled"))
	}
	if err == nil {
		err = m.removeAll(ctx, source)
	}
	if err != nil {
		return err
	}
	return source.Left(ctx)
}

// known are the providers of the configuration, and those that are remembered.
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

// checkTarget refuses a file that is a state by itself.
func (m *migration) checkTarget(ctx context.Context, target *bolt.Store, about bolt.About, source *sharedSource) error {
	id, err := target.Identity(ctx)
	if err != nil || id.Serial == 0 || about.Role == bolt.Private && m.to.file == m.from.file || about.Role == bolt.Moved && id.Lineage == source.identity.Lineage {
		return err
	}
	return hint(fmt.Errorf("%s is there already, and is not where the state came from", m.to.file), "move it away, or name another file")
}

// load chooses what is of this configuration, and makes of it what it will be in the file.
func (s *sharedSource) load(ctx context.Context, want resources.Desired) error {
	entries, err := s.List(ctx)
	if err != nil {
		return err
	}
	own := func(r *resources.Request) bool { return strings.HasPrefix(r.Who, plan.OwnRequestor) }
	if err := openRequests(entries, own); err != nil {
		return err
	}
	chosen, foreign := s.choose(entries, want)
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
		s.cargo = append(s.cargo, forFile(r, ids))
	}
	sortCargo(s.cargo)
	return nil
}

// choose returns the entries of this configuration's providers and images. Builds of which others have uploads are
// copied and stay.
func (s *sharedSource) choose(entries []state.Entry, want resources.Desired) (chosen []state.Entry, foreign map[resources.Key]bool) {
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
			ours = needed[r.ID] || configuredImage(want, r.Image) != nil
		case *resources.Request:
			continue
		case *resources.ImageRecord:
			if e.Revision == 0 { // others have paused it, and it is not known here
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

// number learns which numbers were given, wherever.
func (s *sharedSource) number(ctx context.Context) error {
	about, err := s.private.About(ctx)
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

// takeIn writes the file in one transaction, and reads it back.
func (m *migration) takeIn(ctx context.Context, source *sharedSource, target *bolt.Store, move string) error {
	doc := bolt.NewDocument(version())
	doc.Lineage, doc.Serial, doc.Move, doc.Sequences = source.identity.Lineage, source.identity.Serial, move, source.sequences
	doc.HashKey = source.identity.HashKey
	for _, records := range [][]resources.Record{source.cargo, source.notes} {
		for _, r := range records {
			if err := doc.Add(r); err != nil {
				return err
			}
		}
	}
	if err := target.Take(ctx, doc, bolt.Turn{Role: bolt.Whole}); err != nil {
		return err
	}
	entries, err := target.List(ctx)
	if err != nil {
		return err
	}
	if err := verifyCargo(source.cargo, byKey(entries)); err != nil {
		return err
	}
	m.report.Verified = len(source.cargo)
	return nil
}

// removeAtOnce is how many records are removed with one commit, with all that is below them.
const removeAtOnce = 50

// removeAll takes away what is in the file now: nodes first, so that nothing refers to what is gone.
func (m *migration) removeAll(ctx context.Context, source *sharedSource) error {
	for _, kind := range slices.Backward(cargoKinds) {
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
			if err := m.after("removed"); err != nil {
				return err
			}
		}
	}
	if err := source.unpause(ctx); err != nil {
		return err
	}
	return source.thaw(ctx)
}

// thaw takes the flags of providers away that have moved: they are frozen in the file.
func (s *sharedSource) thaw(ctx context.Context) error {
	for _, provider := range s.ProvidersFrozen() {
		if !s.providers[provider] {
			continue
		}
		if err := s.FreezeProvider(ctx, provider, false); err != nil {
			return err
		}
	}
	return nil
}

// noteFrozen adds records of configured providers that are frozen and that this process has never worked with; those that it
// has worked with say so by themselves.
func (m *migration) noteFrozen(source *sharedSource) error {
	frozen := source.ProvidersFrozen()
	for i := range m.config.Desired.Providers {
		p := &m.config.Desired.Providers[i]
		has := slices.ContainsFunc(source.notes, func(r resources.Record) bool {
			return r.Key() == resources.Key{Kind: resources.KindProvider, ID: p.Name}
		})
		if has || !slices.Contains(frozen, p.Name) {
			continue
		}
		record, err := reconcile.Remember(p, m.config.registry.drivers[p.Driver].Schema().Provider)
		if err != nil {
			return err
		}
		record.Frozen = true
		source.notes = append(source.notes, record)
	}
	return nil
}

// unpause takes the flags of images away that nobody has there any more.
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
