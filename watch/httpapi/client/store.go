package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var (
	_ state.Store      = (*Store)(nil)
	_ state.Identified = (*Store)(nil)
)

// ErrFormat: the daemon's npctl uses another format of the store API.
var ErrFormat = errors.New("the daemon has another version of npctl")

// Store is the state of a daemon. The daemon knows of each write through it at once.
type Store struct {
	client *Client
	head   wire.StoreHead

	closing context.Context // done when Close starts
	close   context.CancelFunc
	workers sync.WaitGroup

	mu    sync.Mutex // guards locks
	locks map[string]*lock
}

// OpenStore opens the state of the client's daemon. It works only over the unix socket. Close of the Store closes the
// client too.
func OpenStore(ctx context.Context, c *Client) (*Store, error) {
	s := &Store{client: c, locks: map[string]*lock{}}
	if err := c.call(ctx, http.MethodGet, at("store"), nil, nil, &s.head); err != nil {
		return nil, err
	}
	if s.head.Format != wire.StoreFormat {
		return nil, fmt.Errorf("%w: it is %s with store format %d, and this npctl has format %d", ErrFormat, s.head.Npctl, s.head.Format, wire.StoreFormat)
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Path returns the path of the daemon's state.
func (s *Store) Path() string { return s.head.Path }

// Identity implements state.Identified.
func (s *Store) Identity(ctx context.Context) (state.Identity, error) {
	head, err := s.readHead(ctx)
	return head.Identity, err
}

// ConfigurationDigest returns the digest of the configuration that the daemon has in force.
func (s *Store) ConfigurationDigest(ctx context.Context) (resources.Hash, error) {
	head, err := s.readHead(ctx)
	return head.Configuration, err
}

func (s *Store) readHead(ctx context.Context) (head wire.StoreHead, err error) {
	err = s.call(ctx, http.MethodGet, at("store"), nil, nil, &head)
	head.Identity.HashKey = resources.HashKey(head.HashKey)
	return head, err
}

// usable returns an error if the store is closed or ctx is done.
func (s *Store) usable(ctx context.Context) error {
	if s.closing.Err() != nil {
		return fmt.Errorf("state of the daemon at %s: %w", s.client.where, os.ErrClosed)
	}
	return ctx.Err()
}

func (s *Store) call(ctx context.Context, method, path string, query url.Values, send, answer any) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.client.call(ctx, method, path, query, send, answer)
}

// Get implements state.Store.
func (s *Store) Get(ctx context.Context, key resources.Key) (state.Entry, error) {
	var found wire.Entry
	if err := s.call(ctx, http.MethodGet, at("store", "record"), values("kind", string(key.Kind), "id", key.ID), nil, &found); err != nil {
		return state.Entry{}, err
	}
	return entryOf(&found)
}

func entryOf(e *wire.Entry) (state.Entry, error) {
	if e.Kind == "" {
		return state.Entry{}, nil
	}
	record := resources.NewRecord(e.Kind)
	if record == nil {
		return state.Entry{}, fmt.Errorf("%w: it has records of the unknown kind %q", ErrFormat, e.Kind)
	}
	if err := jsonv2.Unmarshal(e.Record, record); err != nil {
		return state.Entry{}, fmt.Errorf("record %s/%s of the daemon: %w", e.Kind, e.ID, err)
	}
	return state.Entry{Record: record, Revision: state.Revision(e.Revision)}, nil
}

// lineSize is the maximum size of a line of a list in bytes: an escaped record of one megabyte.
const lineSize = 8 << 20

// List implements state.Store.
func (s *Store) List(ctx context.Context, kinds ...resources.Kind) ([]state.Entry, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	response, err := s.client.send(ctx, http.MethodGet, at("store", "records"), values("kind", strings.Join(words, ",")), nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	var entries []state.Entry
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 0, 64<<10), lineSize)
	for lines.Scan() {
		var line wire.Entry
		if err := jsonv2.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("list the daemon's records: %w", err)
		}
		if line.End {
			return entries, nil
		}
		entry, err := entryOf(&line)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	if err := lines.Err(); err != nil {
		return nil, s.client.connectionError(ctx, err)
	}
	return nil, fmt.Errorf("list the daemon's records: %w", io.ErrUnexpectedEOF)
}

// Commit implements state.Store.
func (s *Store) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	if err := s.usable(ctx); err != nil || len(ops) == 0 {
		return nil, err
	}
	send := wire.Commit{Ops: make([]wire.Op, len(ops))}
	for i, op := range ops {
		send.Ops[i] = wire.Op{Key: op.Key, Revision: uint64(op.Revision), Force: op.Force}
		if op.Record == nil {
			continue
		}
		text, err := json.Marshal(op.Record)
		if err != nil {
			return nil, fmt.Errorf("commit: op %d: %w", i, err)
		}
		if string(text) == "null" {
			return nil, fmt.Errorf("commit: op %d: cannot write a nil %T", i, op.Record)
		}
		send.Ops[i].Kind, send.Ops[i].Record = op.Record.Key().Kind, text
	}
	made, err := s.commit(ctx, send)
	if err != nil {
		return nil, err
	}
	if len(made.Entries) != len(ops) {
		return nil, fmt.Errorf("daemon at %s: %d entries for %d changes", s.client.where, len(made.Entries), len(ops))
	}
	entries := make([]state.Entry, len(ops))
	for i := range made.Entries {
		if entries[i], err = entryOf(&made.Entries[i]); err != nil {
			return nil, err
		}
		if ops[i].Record != nil && ops[i].Record.Key().ID == "" {
			resources.SetID(ops[i].Record, made.Entries[i].ID)
		}
	}
	return entries, nil
}

// commit sends a commit, again if a lock was unlocked while it was sent.
func (s *Store) commit(ctx context.Context, send wire.Commit) (made wire.Committed, err error) {
	for {
		send.Locks = s.heldLocks()
		err = s.call(ctx, http.MethodPost, at("store", "commit"), nil, send, &made)
		if !errors.Is(err, state.ErrLost) {
			return made, err
		}
		if now := s.heldLocks(); !slices.ContainsFunc(send.Locks, func(id string) bool { return !slices.Contains(now, id) }) {
			s.loseAll()
			return made, err
		}
	}
}

// Watch implements state.Store.
func (s *Store) Watch(ctx context.Context) (<-chan struct{}, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	release := context.AfterFunc(s.closing, stop)
	response, err := s.client.send(ctx, http.MethodGet, at("store", "watch"), nil, nil)
	if err != nil {
		stop()
		return nil, err
	}
	hints := make(chan struct{}, 1)
	lines := bufio.NewScanner(response.Body)
	lines.Scan() // the first line confirms that the watch has started
	s.workers.Go(func() {
		defer close(hints)
		defer release()
		defer stop()
		defer response.Body.Close() //nolint:errcheck // only read
		for lines.Scan() {
			var hint wire.Hint
			if json.Unmarshal(lines.Bytes(), &hint) == nil && hint.Changed {
				select {
				case hints <- struct{}{}:
				default:
				}
			}
		}
	})
	return hints, nil
}

// Activity returns the activity of the daemon and of other processes in its state.
func (s *Store) Activity(ctx context.Context) (work wire.Activity, err error) {
	err = s.call(ctx, http.MethodGet, at("store", "work"), nil, nil, &work)
	return work, err
}

var _ state.BuildRequester = (*Store)(nil)

// RequestBuild creates or removes a build request if the daemon's store is shared; see state.Shared.
func (s *Store) RequestBuild(ctx context.Context, image string, wish bool) error {
	return s.call(ctx, http.MethodPost, at("store", "wish"), nil, wire.BuildRequest{Image: image, Wish: wish}, nil)
}

// Close implements state.Store. It releases the locks.
func (s *Store) Close() error {
	s.close()
	err := s.giveBack()
	s.workers.Wait()
	s.client.Close()
	return err
}
