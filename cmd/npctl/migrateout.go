package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/zookeeper"
)

// How a state moves into ZooKeeper, so that it may be cut short anywhere:
//
//  1. ZooKeeper says of itself that a state is arriving, which keeps everybody else out, and the file that it is moving.
//  2. Records are written in pieces. One that is there already and equal is left alone.
//  3. The numbers that the file has given are skipped, and everything is read back and compared.
//  4. The file becomes what one process keeps for itself; or that is a new file, and the old one says that it was moved.
//  5. ZooKeeper lets everybody in.
//
// Until 4 the file has everything, and nothing in ZooKeeper counts.

// migration is a move on its way.
type migration struct {
	*migrateCommand
	config   *configuration
	from, to statePlace
	report   migrationReport
	begun    bool // something may have been written
}

// fileSource is the file that a state comes from.
type fileSource struct {
	*bolt.Store
	about    bolt.About
	identity state.Identity
	cargo    []resources.Record // in the order in which they are written
	private  []resources.Record
	requests int // that are left behind
}

func (m *migration) intoZooKeeper(ctx context.Context) (err error) {
	if !exists(m.from.file) {
		return hint(fmt.Errorf("%w: %s is not there", errNothing, m.from.file), "-from names the file that the state is in")
	}
	store, about, err := m.openAny(m.from.file)
	if err != nil {
		return err
	}
	source := &fileSource{Store: store, about: about}
	defer func() { err = errors.Join(err, source.Close()) }()
	if source.identity, err = source.Identity(ctx); err != nil {
		return err
	}
	m.report = migrationReport{FormatVersion: jsonVersion, From: m.from.String(), To: m.to.String(), Lineage: source.identity.Lineage, DryRun: m.dryRun}
	if m.dryRun {
		return m.tryInto(ctx, source)
	}
	lock, err := m.lock(ctx, source, "state migrate", m.lockTimeout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlockAll(ctx, []state.Lock{lock})) }()
	if err := source.load(ctx); err != nil {
		return err
	}
	return m.moveInto(ctx, source)
}

// load reads what there is to move.
func (s *fileSource) load(ctx context.Context) error {
	entries, err := s.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch kind := e.Record.Key().Kind; {
		case isCargo(kind):
			s.cargo = append(s.cargo, forZooKeeper(e.Record))
		case kind == resources.KindRequest:
			s.requests++
		default:
			s.private = append(s.private, e.Record)
		}
	}
	sortCargo(s.cargo)
	if s.about.Role == bolt.Private || s.about.Role == bolt.Moved {
		return nil
	}
	return openRequests(entries, func(*resources.Request) bool { return true })
}

// tryInto says what would move. ZooKeeper is only read.
func (m *migration) tryInto(ctx context.Context, source *fileSource) error {
	if source.about.Role != bolt.Whole && source.about.Role != bolt.Moving {
		return m.wrongRole(source)
	}
	if err := source.load(ctx); err != nil {
		return err
	}
	target, err := m.joinAs(ctx, source, func(o *zookeeper.Options) { o.ReadOnly, o.Lineage = true, "" })
	if err != nil {
		return err
	}
	defer target.Close() //nolint:errcheck // only read
	_, err = m.compare(ctx, source, target)
	return err
}

func (m *migration) wrongRole(source *fileSource) error {
	return &bolt.RoleError{Path: m.from.file, Role: source.about.Role, Elsewhere: source.about.Elsewhere}
}

// joinAs opens ZooKeeper with the file beside it.
func (m *migration) joinAs(ctx context.Context, file *fileSource, with func(*zookeeper.Options)) (*zookeeper.Store, error) {
	opts := *m.to.shared
	opts.Private, opts.Version, opts.Log, opts.OpenTimeout, opts.Lineage = file, version(), m.log, openTimeout, file.identity.Lineage
	opts.HashKey = file.identity.HashKey
	with(&opts)
	return zookeeper.Open(ctx, opts)
}

func (m *migration) moveInto(ctx context.Context, source *fileSource) (err error) {
	done := source.about.Role == bolt.Private && m.from.file == m.to.file || source.about.Role == bolt.Moved
	if !done && source.about.Role != bolt.Whole && source.about.Role != bolt.Moving {
		return m.wrongRole(source)
	}
	if done && !m.isArriving(ctx, source) {
		return hint(m.wrongRole(source), "nothing is left to do")
	}
	if err := m.checkPrivateTarget(ctx, source); err != nil {
		return err
	}
	target, err := m.joinAs(ctx, source, func(o *zookeeper.Options) { o.Arriving = true })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := m.after("announced"); err != nil {
		return err
	}
	if !done {
		if err := m.bring(ctx, source, target); err != nil {
			if source.about.Role == bolt.Whole && !m.begun {
				err = errors.Join(err, target.Arrived(context.WithoutCancel(ctx))) // nothing was written
			}
			return err
		}
	}
	return target.Arrived(ctx)
}

// isArriving reports whether ZooKeeper waits for the end of the move.
func (m *migration) isArriving(ctx context.Context, source *fileSource) bool {
	target, err := m.joinAs(ctx, source, func(*zookeeper.Options) {})
	if err == nil {
		_ = target.Close() // only looked
	}
	return errors.Is(err, zookeeper.ErrArriving)
}

// bring does what is to be done while everybody is kept out.
func (m *migration) bring(ctx context.Context, source *fileSource, target *zookeeper.Store) (err error) {
	locks, err := m.takeProviders(ctx, target, providersIn(source.cargo))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlockAll(ctx, locks)) }()
	found, err := m.compare(ctx, source, target)
	if err != nil {
		return err
	}
	if err := source.Turn(ctx, bolt.Turn{Role: bolt.Moving, Elsewhere: m.to.String()}); err != nil {
		return err
	}
	m.begun = true
	if err := m.after("begun"); err != nil {
		return err
	}
	if err := m.write(ctx, target, found.write); err != nil {
		return err
	}
	if err := holdBack(ctx, source, target); err != nil {
		return err
	}
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload} {
		if err := target.Reserve(ctx, kind, source.about.Sequences[kind]); err != nil {
			return err
		}
		if err := m.after("numbered"); err != nil {
			return err
		}
	}
	there, err := m.read(ctx, target)
	if err != nil {
		return err
	}
	if err := verifyCargo(source.cargo, there); err != nil {
		return err
	}
	m.report.Verified = len(source.cargo)
	return m.settle(ctx, source)
}

// holdBack makes what the file holds back be so for everybody. What others have paused or frozen stays so.
func holdBack(ctx context.Context, source *fileSource, target *zookeeper.Store) error {
	for _, r := range source.private {
		var err error
		switch r := r.(type) {
		case *resources.ImageRecord:
			if r.Paused {
				err = target.PauseImage(ctx, r.Name, true)
			}
		case *resources.ProviderRecord:
			if r.Frozen {
				err = target.FreezeProvider(ctx, r.Name, true)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compare looks at what the target has, and refuses what is in the way.
func (m *migration) compare(ctx context.Context, source *fileSource, target *zookeeper.Store) (comparison, error) {
	if err := servedByOthers(target.Peers(), providersIn(source.cargo)); err != nil {
		return comparison{}, err
	}
	there, err := m.read(ctx, target)
	if err != nil {
		return comparison{}, err
	}
	found := compareCargo(source.cargo, there)
	m.report.count(source.cargo, found, source.private, source.requests)
	return found, found.refuse(m.to)
}

func (m *migration) read(ctx context.Context, target *zookeeper.Store) (map[resources.Key]resources.Record, error) {
	if !m.dryRun {
		if err := target.Sync(ctx); err != nil {
			return nil, err
		}
	}
	entries, err := target.List(ctx, cargoKinds...)
	return byKey(entries), err
}

// write puts the records there, and tells how far it is.
func (m *migration) write(ctx context.Context, target *zookeeper.Store, records []resources.Record) error {
	told := time.Now()
	written := 0
	for _, piece := range batches(records) {
		if err := target.Import(ctx, piece...); err != nil {
			return err
		}
		if written += len(piece); time.Since(told) > tellEvery && !m.json {
			told = time.Now()
			m.ui.talk("%d of %s written.", written, countWord(len(records), "record is", "records are"))
		}
		if err := m.after("written"); err != nil {
			return err
		}
	}
	return nil
}

// tellEvery is how often people hear that it goes on.
const tellEvery = 2 * time.Second

// settle makes the files what they are from now on.
func (m *migration) settle(ctx context.Context, source *fileSource) error {
	if m.from.file == m.to.file {
		backup, err := source.backUp(ctx, m.from.file+".moved.json")
		if err != nil {
			return err
		}
		m.report.Backup = backup
		without := append([]resources.Kind{resources.KindRequest}, cargoKinds...)
		err = source.Turn(ctx, bolt.Turn{Role: bolt.Private, Elsewhere: m.to.String(), Without: without})
		return errors.Join(err, m.after("settled"))
	}
	if err := m.writePrivate(ctx, source); err != nil {
		return err
	}
	if err := m.after("private"); err != nil {
		return err
	}
	err := source.Turn(ctx, bolt.Turn{Role: bolt.Moved, Elsewhere: m.to.String()})
	return errors.Join(err, m.after("settled"))
}

// backUp writes all that the file holds to another, for when somebody wants to know what it was.
func (s *fileSource) backUp(ctx context.Context, path string) (string, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("back up the state: %w", err)
	}
	err = errors.Join(s.Export(ctx, file), file.Sync(), file.Close())
	return path, err
}

// checkPrivateTarget refuses to overwrite a file that is something else.
func (m *migration) checkPrivateTarget(ctx context.Context, source *fileSource) error {
	if m.from.file == m.to.file {
		return nil
	}
	if _, err := os.Stat(m.to.file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, about, err := m.openAny(m.to.file)
	if err != nil {
		return err
	}
	id, err := file.Identity(ctx)
	if err = errors.Join(err, file.Close()); err != nil || id.Serial == 0 {
		return err
	}
	if about.Role != bolt.Private || id.Lineage != source.identity.Lineage {
		return hint(fmt.Errorf("%s, which is to keep what is private, holds something else", m.to.file), "move it away, or name another file in the state block")
	}
	return nil
}

func (m *migration) writePrivate(ctx context.Context, source *fileSource) (err error) {
	file, _, err := m.openAny(m.to.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	doc := bolt.NewDocument(version())
	doc.Lineage = source.identity.Lineage
	for kind, last := range source.about.Sequences {
		doc.Sequences[kind] = last
	}
	for _, r := range source.private {
		if err := doc.Add(r); err != nil {
			return err
		}
	}
	return file.Take(ctx, doc, bolt.Turn{Role: bolt.Private, Elsewhere: m.to.String()})
}

// takeProviders keeps other processes from serving the providers and from building images meanwhile.
func (m *migration) takeProviders(ctx context.Context, target *zookeeper.Store, providers map[string]bool) (locks []state.Lock, err error) {
	names := []string{reconcile.ImagesLock}
	for _, provider := range slices.Sorted(maps.Keys(providers)) {
		names = append(names, reconcile.ProviderLock(provider))
	}
	for _, name := range names {
		lock, err := m.waitLock(ctx, target, name)
		if err != nil {
			return nil, errors.Join(hint(fmt.Errorf("others must not work with what moves: %w", err), "stop that process; one that was killed is gone when its session ends"),
				unlockAll(ctx, locks))
		}
		locks = append(locks, lock)
	}
	return locks, nil
}

// waitLock waits for whoever has it, who may have been killed: then it is free when the session has ended.
func (m *migration) waitLock(ctx context.Context, store state.Store, name string) (state.Lock, error) {
	deadline := time.Now().Add(m.lockTimeout)
	for {
		lock, err := store.Lock(ctx, name, state.Holder{Operation: "state migrate"})
		if err == nil || !errors.Is(err, state.ErrLocked) || !time.Now().Before(deadline) {
			return lock, err
		}
		select {
		case <-time.After(min(lockEvery, time.Until(deadline))):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func providersIn(records []resources.Record) map[string]bool {
	providers := map[string]bool{}
	for _, r := range records {
		switch r := r.(type) {
		case *resources.Node:
			providers[r.Provider] = true
		case *resources.Upload:
			providers[r.Provider] = true
		}
	}
	return providers
}
