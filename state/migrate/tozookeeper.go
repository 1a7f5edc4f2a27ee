package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/state/zookeeper"
)

// The migration of a state from a file to ZooKeeper may be interrupted at any point:
//
//  1. ZooKeeper and the file record that an import is in progress, which excludes other processes.
//  2. Records are written in batches. Records that exist already and are equal are skipped.
//  3. The IDs that the file has assigned are reserved, and all records are read back and compared.
//  4. The file becomes the private file of one process; or a new file does, and the old file records the move.
//  5. ZooKeeper records the end of the import and admits all processes.
//
// Until step 4 the file is the complete state, and the records in ZooKeeper are not valid.

// fileSource is the file from which a state moves.
type fileSource struct {
	*bolt.Store
	about    bolt.FileInfo
	identity state.Identity
	plan     importPlan
}

func (m *migration) intoZooKeeper(ctx context.Context) (err error) {
	if location.InFile(m.From.File).IsEmpty() {
		return hints.Add(fmt.Errorf("%w: %s is not there", errNothing, m.From.File), "-from names the file that contains the state")
	}
	store, about, err := m.openAny(m.From.File)
	if err != nil {
		return err
	}
	source := &fileSource{Store: store, about: about}
	defer func() { err = errors.Join(err, source.Close()) }()
	if source.identity, err = source.Identity(ctx); err != nil {
		return err
	}
	m.report = Report{From: m.From.String(), To: m.To.String(), Lineage: source.identity.Lineage, DryRun: m.DryRun}
	if m.DryRun {
		return m.tryInto(ctx, source)
	}
	lock, err := m.Lock(ctx, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlockAll(ctx, []state.Lock{lock})) }()
	if err := source.load(ctx); err != nil {
		return err
	}
	return m.moveInto(ctx, source)
}

// load reads the records and decides what moves.
func (s *fileSource) load(ctx context.Context) error {
	entries, err := s.List(ctx)
	if err != nil {
		return err
	}
	s.plan, err = planImport(entries, s.about.Role)
	return err
}

// tryInto reports what a migration would move. It opens ZooKeeper read-only.
func (m *migration) tryInto(ctx context.Context, source *fileSource) error {
	if source.about.Role != bolt.RoleState && source.about.Role != bolt.RoleMigrating {
		return m.wrongRole(source)
	}
	if err := source.load(ctx); err != nil {
		return err
	}
	target, err := m.joinAs(ctx, source, func(o *zookeeper.Options) { o.ReadOnly, o.Lineage = true, "" })
	if err != nil {
		return err
	}
	defer target.Close() //nolint:errcheck // read-only file
	_, err = m.compare(ctx, source, target)
	return err
}

func (m *migration) wrongRole(source *fileSource) error {
	return &bolt.RoleError{Path: m.From.File, Role: source.about.Role, Location: source.about.Location}
}

// joinAs opens ZooKeeper with the file as its private store.
func (m *migration) joinAs(ctx context.Context, file *fileSource, with func(*zookeeper.Options)) (*zookeeper.Store, error) {
	opts := *m.To.Shared
	opts.Private, opts.Version, opts.Log, opts.OpenTimeout, opts.Lineage = file, m.Version, m.Log, m.OpenTimeout, file.identity.Lineage
	opts.HashKey = file.identity.HashKey
	with(&opts)
	return zookeeper.Open(ctx, opts)
}

func (m *migration) moveInto(ctx context.Context, source *fileSource) (err error) {
	done := source.about.Role == bolt.RolePrivate && m.From.File == m.To.File || source.about.Role == bolt.RoleMigrated
	if !done && source.about.Role != bolt.RoleState && source.about.Role != bolt.RoleMigrating {
		return m.wrongRole(source)
	}
	if done && !m.isArriving(ctx, source) {
		return hints.Add(m.wrongRole(source), "no steps are left")
	}
	if err := m.checkPrivateTarget(ctx, source); err != nil {
		return err
	}
	target, err := m.joinAs(ctx, source, func(o *zookeeper.Options) { o.Importing = true })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := m.After("announced"); err != nil {
		return err
	}
	if !done {
		if err := m.importRecords(ctx, source, target); err != nil {
			if source.about.Role == bolt.RoleState && !m.begun {
				err = errors.Join(err, target.EndImport(context.WithoutCancel(ctx))) // nothing was written
			}
			return err
		}
	}
	return target.EndImport(ctx)
}

// isArriving reports whether ZooKeeper waits for the end of the import.
func (m *migration) isArriving(ctx context.Context, source *fileSource) bool {
	target, err := m.joinAs(ctx, source, func(*zookeeper.Options) {})
	if err == nil {
		_ = target.Close() // opened only to get the error
	}
	return errors.Is(err, zookeeper.ErrImporting)
}

// importRecords copies the records while ZooKeeper excludes all other processes.
func (m *migration) importRecords(ctx context.Context, source *fileSource, target *zookeeper.Store) (err error) {
	locks, err := m.takeProviders(ctx, target, providersIn(source.plan.records))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlockAll(ctx, locks)) }()
	found, err := m.compare(ctx, source, target)
	if err != nil {
		return err
	}
	if err := source.ConvertRole(ctx, bolt.RoleChange{Role: bolt.RoleMigrating, Location: m.To.String()}); err != nil {
		return err
	}
	m.begun = true
	if err := m.After("begun"); err != nil {
		return err
	}
	if err := m.write(ctx, target, found.write); err != nil {
		return err
	}
	for _, image := range source.plan.paused { // ZooKeeper keeps the flags that other processes set
		if err := target.PauseImage(ctx, image, true); err != nil {
			return err
		}
	}
	for _, provider := range source.plan.frozen {
		if err := target.FreezeProvider(ctx, provider, true); err != nil {
			return err
		}
	}
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload} {
		if err := target.Reserve(ctx, kind, source.about.Sequences[kind]); err != nil {
			return err
		}
		if err := m.After("numbered"); err != nil {
			return err
		}
	}
	there, err := m.read(ctx, target)
	if err != nil {
		return err
	}
	if err := verifyCargo(source.plan.records, there); err != nil {
		return err
	}
	m.report.Verified = len(source.plan.records)
	return m.settle(ctx, source)
}

// compare compares the records with those at the target. It returns an error if the target has conflicting records, or
// if another process serves one of the providers.
func (m *migration) compare(ctx context.Context, source *fileSource, target *zookeeper.Store) (comparison, error) {
	if err := servedByOthers(target.RegisteredPools(), providersIn(source.plan.records)); err != nil {
		return comparison{}, err
	}
	there, err := m.read(ctx, target)
	if err != nil {
		return comparison{}, err
	}
	found := compareCargo(source.plan.records, there)
	m.report.count(source.plan.records, found, source.plan.private, source.plan.requests)
	return found, found.refuse(m.To)
}

func (m *migration) read(ctx context.Context, target *zookeeper.Store) (map[resources.Key]resources.Record, error) {
	if !m.DryRun {
		if err := target.Sync(ctx); err != nil {
			return nil, err
		}
	}
	entries, err := target.List(ctx, migratedKinds...)
	return byKey(entries), err
}

// write writes the records in batches and reports progress.
func (m *migration) write(ctx context.Context, target *zookeeper.Store, records []resources.Record) error {
	written := 0
	for _, piece := range batches(records) {
		if err := target.Import(ctx, piece...); err != nil {
			return err
		}
		written += len(piece)
		m.Progress(written, len(records))
		if err := m.After("written"); err != nil {
			return err
		}
	}
	return nil
}

// settle gives the files their new roles.
func (m *migration) settle(ctx context.Context, source *fileSource) error {
	if m.From.File == m.To.File {
		backup, err := source.backUp(ctx, m.From.File+".moved.json")
		if err != nil {
			return err
		}
		m.report.Backup = backup
		without := append([]resources.Kind{resources.KindRequest}, migratedKinds...)
		err = source.ConvertRole(ctx, bolt.RoleChange{Role: bolt.RolePrivate, Location: m.To.String(), Without: without})
		return errors.Join(err, m.After("settled"))
	}
	if err := m.writePrivate(ctx, source); err != nil {
		return err
	}
	if err := m.After("private"); err != nil {
		return err
	}
	err := source.ConvertRole(ctx, bolt.RoleChange{Role: bolt.RoleMigrated, Location: m.To.String()})
	return errors.Join(err, m.After("settled"))
}

// backUp exports the state to another file, which preserves the content from before the move.
func (s *fileSource) backUp(ctx context.Context, path string) (string, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("back up the state: %w", err)
	}
	err = errors.Join(s.Export(ctx, file), file.Sync(), file.Close())
	return path, err
}

// checkPrivateTarget returns an error if the private file would overwrite a file with other content.
func (m *migration) checkPrivateTarget(ctx context.Context, source *fileSource) error {
	if m.From.File == m.To.File {
		return nil
	}
	if _, err := os.Stat(m.To.File); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, about, err := m.openAny(m.To.File)
	if err != nil {
		return err
	}
	id, err := file.Identity(ctx)
	if err = errors.Join(err, file.Close()); err != nil || id.Serial == 0 {
		return err
	}
	if about.Role != bolt.RolePrivate || id.Lineage != source.identity.Lineage {
		return hints.Add(fmt.Errorf("%s, the file for private records, contains another state", m.To.File), "move it away, or name another file in the state block")
	}
	return nil
}

func (m *migration) writePrivate(ctx context.Context, source *fileSource) (err error) {
	file, _, err := m.openAny(m.To.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	doc := bolt.NewDocument(m.Version)
	doc.Lineage = source.identity.Lineage
	maps.Copy(doc.Sequences, source.about.Sequences)
	for _, r := range source.plan.private {
		if err := doc.Add(r); err != nil {
			return err
		}
	}
	return file.ReplaceAll(ctx, doc, bolt.RoleChange{Role: bolt.RolePrivate, Location: m.To.String()})
}

// takeProviders locks the providers and the images, so that no other process serves or builds them during the
// migration.
func (m *migration) takeProviders(ctx context.Context, target *zookeeper.Store, providers map[string]bool) (locks []state.Lock, err error) {
	entries, err := target.List(ctx, resources.KindBuild, resources.KindUpload)
	if err != nil {
		return nil, err
	}
	names := lockNames(entries, m.Desired, providers)
	for _, name := range names {
		lock, err := state.LockWithin(ctx, target, name, state.Holder{Operation: Operation}, m.LockTimeout, func(error) {})
		if err != nil {
			return nil, errors.Join(hints.Add(fmt.Errorf("other processes must not use the records that move: %w", err), "stop that process; the registration of a killed process ends with its session"),
				unlockAll(ctx, locks))
		}
		locks = append(locks, lock)
	}
	return locks, nil
}
