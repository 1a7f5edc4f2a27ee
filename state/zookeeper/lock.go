package zookeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/state"
)

// lock is a named lock. While a lost lock has not been unlocked, all writes fail.
type lock struct {
	*contender
	locks *locks
	name  string
	id    string
}

var _ state.Lock = (*lock)(nil)

const maxLockName = 1024 // bytes

func namedLockDir(name string) string {
	return namedDir + "/" + url.PathEscape(name)
}

// lock takes a named lock; see state.Store.Lock. The lock ends with the session: the locks of a killed process remain for the session
// timeout. Empty fields of holder are filled in from this process; see state.Holder.WithDefaults.
func (ls *locks) lock(ctx context.Context, name string, holder state.Holder) (state.Lock, error) {
	if name == "" || len(name) > maxLockName || name == "." || name == ".." {
		return nil, state.Invalidf("lock %.40q: a name of 1 to %d bytes is needed", name, maxLockName)
	}
	if ls.session.readOnly {
		return nil, state.ErrReadOnly
	}
	if err := ls.session.usable(ctx); err != nil {
		return nil, err
	}
	if err := ls.session.waitSynced(ctx); err != nil {
		return nil, err
	}
	own := holder.WithDefaults(state.Self(ls.host, ls.version))
	for range maxTries {
		l, err := ls.tryLock(ctx, name, own)
		if !errors.Is(err, errRetry) {
			return l, err
		}
	}
	return nil, fmt.Errorf("lock %s: its holder changes too often: %w", name, state.ErrLocked)
}

// tryLock returns a nil interface with every error.
func (ls *locks) tryLock(ctx context.Context, name string, own state.Holder) (state.Lock, error) {
	dir := namedLockDir(name)
	if _, locked, err := ls.first(ctx, name, nil); err != nil {
		return nil, err
	} else if locked != nil {
		return nil, locked
	}
	data, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	contenders, err := ls.enqueue(ctx, []string{dir}, data)
	switch {
	case errors.Is(err, errQueued):
		_, locked, err := ls.first(ctx, name, contenders[0])
		ls.releaseContenders(ctx, contenders)
		switch {
		case err != nil:
			return nil, err
		case locked == nil: // its holder released the lock before its name was read
			return nil, errRetry
		}
		return nil, locked
	case err != nil:
		ls.releaseContenders(ctx, contenders)
		return nil, err
	}
	l := &lock{contender: contenders[0], locks: ls, name: name, id: own.ID}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.named[l] = struct{}{}
	return l, nil
}

// ID implements state.Lock.
func (l *lock) ID() string { return l.id }

// Unlock implements state.Lock.
func (l *lock) Unlock(ctx context.Context) error {
	ls := l.locks
	ls.mu.Lock()
	_, known := ls.named[l]
	delete(ls.named, l)
	ls.mu.Unlock()
	if !known || ls.session.isClosed() {
		return nil
	}
	if err := ls.release(ctx, l.contender); err != nil {
		return fmt.Errorf("unlock %s: %w", l.name, err)
	}
	return nil
}

const lockMark = "__lock__"

// splitContender parses a name as kazoo does: the ten digits at the end order the contenders, whatever the prefix is.
func splitContender(name string) (prefix string, number int64, ok bool) {
	i := strings.LastIndex(name, lockMark)
	if i < 0 {
		return "", 0, false
	}
	digits := name[i+len(lockMark):]
	if len(strings.TrimPrefix(digits, "-")) != sequenceLength || digits[0] == '+' {
		return "", 0, false
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	return name[:i], number, err == nil
}

func isContender(name string) bool {
	_, _, ok := splitContender(name)
	return ok
}

// prefixOf returns the prefix that a contender chose for its name, or "" if name is not that of a contender.
func prefixOf(name string) string {
	prefix, _, ok := splitContender(name)
	if !ok {
		return ""
	}
	return prefix
}

// queue lists the contenders of a lock directory, the holder first.
func (c *cache) queue(dir string) []string {
	return slices.SortedFunc(maps.Keys(c.queues[dir]), compareContenders)
}

func compareContenders(a, b string) int {
	if n, m := contenderNumber(a), contenderNumber(b); n != m {
		return int(max(-1, min(1, n-m)))
	}
	return strings.Compare(a, b)
}

func contenderNumber(name string) int64 {
	_, number, _ := splitContender(name)
	return number
}
