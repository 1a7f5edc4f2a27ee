package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/waits"
)

// The operations that a fault can select.
const (
	opCreate      = "server.create"
	opDelete      = "server.delete"
	opList        = "server.list"
	opUpload      = "image.upload"
	opDeleteImage = "image.delete"
	opListImages  = "image.list"
	opQuota       = "quota.read"
	opTag         = "tags.change"
)

var operations = []string{opCreate, opDelete, opList, opUpload, opDeleteImage, opListImages, opQuota, opTag}

// The actions of faults.
const (
	actionLost   = "lost"
	actionFailed = "failed"
	actionSlow   = "slow"
)

// errorKinds are the actions that reject a call, which then has no effect.
var errorKinds = map[string]error{"quota": drivers.ErrQuota, "capacity": drivers.ErrCapacity, "rejected": drivers.ErrRejected,
	"throttled": drivers.ErrThrottled, "unavailable": drivers.ErrUnavailable}

// fault describes one failure of the cloud and its conditions.
type fault struct {
	Operation string        `config:"operation" json:"operation,omitempty" doc:"Pattern of operations: 'server.create', 'server.delete', 'server.list', 'image.upload', 'image.delete', 'image.list', 'quota.read', 'tags.change'; the default is all."`
	Name      string        `config:"name" json:"name,omitempty" doc:"Pattern of names of servers and images; the default is all."`
	After     int           `config:"after" default:"0" json:"after,omitempty" min:"0" doc:"Number of matching calls that succeed first."`
	Every     int           `config:"every" default:"1" json:"every,omitempty" min:"1" doc:"Every Nth matching call fails."`
	Times     int           `config:"times" default:"0" json:"times,omitempty" min:"0" doc:"Maximum number of calls that fail; 0 is no limit."`
	Action    string        `config:"action,required" json:"action" oneof:"quota capacity rejected throttled unavailable lost failed slow" doc:"What happens: an error 'quota', 'capacity', 'rejected', 'throttled' or 'unavailable' and no effect; 'lost': the effect, and an error instead of the result; 'failed': the server fails at the end of its build; 'slow': the call takes 'delay'."`
	Message   string        `config:"message" json:"message,omitempty" doc:"Text of the error."`
	Delay     time.Duration `config:"delay" json:"-" doc:"Delay of 'slow'."`
}

// UnmarshalJSON reads the entry of a file, with a delay such as "2s".
func (f *fault) UnmarshalJSON(text []byte) error {
	type plain fault
	read := struct {
		*plain
		Delay string `json:"delay"`
	}{plain: (*plain)(f)}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&read)
	if err == nil && read.Delay != "" {
		f.Delay, err = time.ParseDuration(read.Delay)
	}
	return err
}

// check returns an error for an invalid fault.
func (f fault) check() error {
	_, isError := errorKinds[f.Action]
	switch {
	case !isError && !slices.Contains([]string{actionLost, actionFailed, actionSlow}, f.Action):
		return fmt.Errorf("unknown action %q", f.Action)
	case f.Action == actionFailed && f.Operation != opCreate:
		return fmt.Errorf("action %q is for the operation %q", f.Action, opCreate)
	case f.Action == actionSlow && f.Delay <= 0:
		return fmt.Errorf("action %q needs a delay", f.Action)
	case f.After < 0 || f.Every < 0 || f.Times < 0:
		return errors.New("after, every and times cannot be negative")
	}
	return checkPattern(f.Operation)
}

// checkPattern returns an error for a pattern that matches no operation.
func checkPattern(pattern string) error {
	if slices.ContainsFunc(operations, func(o string) bool { return isMatch(pattern, o) }) {
		return nil
	}
	return fmt.Errorf("unknown operation %q; one of %s", pattern, strings.Join(operations, ", "))
}

func isMatch(pattern, value string) bool {
	return pattern == "" || cloudkit.MatchesPattern(value, pattern)
}

func (f fault) matches(operation, name string) bool {
	return isMatch(f.Operation, operation) && isMatch(f.Name, name)
}

func (f fault) text() string { return cmp.Or(f.Message, "a fault of the configuration") }

// always reports whether the fault needs no counting.
func (f fault) always() bool { return f.After == 0 && f.Every <= 1 && f.Times == 0 }

// strikes reports whether the nth matching call fails, from 1.
func (f fault) strikes(n int) bool {
	every := max(f.Every, 1)
	n -= f.After
	return n > 0 && n%every == 0 && (f.Times == 0 || n/every <= f.Times)
}

// rejection returns the error of a call without an effect, or nil.
func (f fault) rejection() error {
	kind := errorKinds[f.Action]
	if kind == nil {
		return nil
	}
	err := fmt.Errorf("%w: %s", kind, f.text())
	if f.Action == "unavailable" {
		return err // proves nothing, as in real clouds
	}
	return drivers.Unsent(err)
}

// faultBook has the faults of a configuration.
type faultBook struct {
	blocks []fault
	file   string
}

// maxFaults is the maximum size of a file of faults in bytes.
const maxFaults = 1 << 20

// all returns the faults of the blocks and of the file, which may be missing.
func (b faultBook) all() ([]fault, error) {
	if b.file == "" {
		return b.blocks, nil
	}
	file, err := os.Open(b.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b.blocks, nil
	case err != nil:
		return nil, fmt.Errorf("read faults: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	var more []fault
	err = json.NewDecoder(io.LimitReader(file, maxFaults)).Decode(&more)
	for i := 0; i < len(more) && err == nil; i++ {
		err = more[i].check()
	}
	if err != nil {
		return nil, fmt.Errorf("read faults: %s: %w", b.file, err)
	}
	return append(slices.Clip(b.blocks), more...), nil
}

// next returns the fault of a call, or nil. It counts the call for the faults that it matches.
func (c *Cloud) next(operation, name string) (*fault, error) {
	all, err := c.faults.all()
	all = slices.DeleteFunc(slices.Clone(all), func(f fault) bool { return !isMatch(f.Operation, operation) })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var hit *fault
	choose := func(f *fleet) error {
		if s := f.Instances[name]; s != nil {
			name = s.Name
		} else if i := f.Images[name]; i != nil {
			name = i.Name
		}
		for i, one := range all {
			if !one.matches(operation, name) {
				continue
			}
			n := 1
			if !one.always() {
				key := fmt.Sprintf("%+v", one)
				f.Calls[key]++
				n = f.Calls[key]
			}
			if hit == nil && one.strikes(n) {
				hit = &all[i]
			}
		}
		return nil
	}
	use := c.store.view
	if slices.ContainsFunc(all, func(f fault) bool { return !f.always() }) {
		use = c.store.change
	}
	err = use(choose)
	return hit, err
}

// call makes a call that changes the fleet. Its fault, or nil, is passed to fn.
func (c *Cloud) call(ctx context.Context, operation, name string, fn func(*fleet, *fault) error) error {
	return c.around(ctx, operation, name, func(hit *fault) error {
		return c.store.change(func(f *fleet) error { return fn(f, hit) })
	})
}

// read makes a call that changes nothing.
func (c *Cloud) read(ctx context.Context, operation string, fn func(*fleet) error) error {
	return c.around(ctx, operation, "", func(*fault) error { return c.store.view(fn) })
}

func (c *Cloud) around(ctx context.Context, operation, name string, fn func(*fault) error) error {
	if err := ctx.Err(); err != nil {
		return drivers.Unsent(context.Cause(ctx))
	}
	hit, err := c.next(operation, name)
	if err != nil {
		return drivers.Unsent(err)
	}
	if hit != nil {
		if err := hit.rejection(); err != nil {
			return fmt.Errorf("%s: %w", operation, err)
		}
		if err := waits.Sleep(ctx, hit.Delay); err != nil {
			return err
		}
	}
	if err := fn(hit); err != nil {
		return err
	}
	if hit != nil && hit.Action == actionLost {
		return fmt.Errorf("%s: %w: %s", operation, drivers.ErrUnavailable, hit.text())
	}
	return nil
}
