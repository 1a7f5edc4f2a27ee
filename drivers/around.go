package drivers

import "context"

// Call is one call of a Cloud, as decorators see it.
type Call struct {
	Name    string // such as create, list or upload_image
	Subject string // what it is about: a node's id, an image's name; empty for lists
	// Repeat says when the call may be made again after an error.
	Repeat Repeat
	// Weight says how long it may take.
	Weight Weight
}

// Repeat says when a call may be made again.
type Repeat int

const (
	// RepeatAlways is for calls that may happen twice: lists, lookups, deletions.
	RepeatAlways Repeat = iota
	// RepeatIfNothingDone is for calls that make something: only an error that proves that nothing was made allows
	// another try. After a lost answer the caller has to look first (see Spec.Retried), and the thing may appear
	// later than any look that could be taken here.
	RepeatIfNothingDone
	// RepeatUnlessLate is for calls that remove what an earlier try created (see ImageSpec.Retried). A call that used up
	// its own timeout is not repeated: it would take as long again.
	RepeatUnlessLate
)

// Weight is how long a call may take.
type Weight int

// The weights of calls.
const (
	Light  Weight = iota // one thing
	Paged                // a list of any length
	Upload               // an image
)

// Around is a decorator: it calls next once, several times or not at all.
type Around func(ctx context.Context, call Call, next func(context.Context) error) error

// chain makes one of several, the first outermost.
func chain(arounds ...Around) Around {
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		for i := len(arounds) - 1; i >= 0; i-- {
			around, inner := arounds[i], next
			next = func(ctx context.Context) error { return around(ctx, call, inner) }
		}
		return next(ctx)
	}
}

// Wrap puts a decorator around every call of a Cloud, those of its abilities included (see Images and its like).
func Wrap(c Cloud, around Around) Cloud { return &decoratedCloud{c, around} }

// do runs a call that returns a value through a decorator.
func do[T any](ctx context.Context, around Around, call Call, f func(context.Context) (T, error)) (T, error) {
	var result T
	err := around(ctx, call, func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	})
	return result, err
}
