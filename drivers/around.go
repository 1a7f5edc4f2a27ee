package drivers

import "context"

// Call describes one call of a Cloud to decorators.
type Call struct {
	Name    string // such as create, list or upload_image
	Subject string // the object of the call: a node's ID, an image's name; empty for lists
	// Retry states when the call may be repeated after an error.
	Retry RetryPolicy
	// Weight states how long the call may take.
	Weight TimeoutClass
}

// RetryPolicy states when a call may be repeated.
type RetryPolicy int

const (
	// RetryAlways is for calls that are safe to repeat: lists, lookups, deletions.
	RetryAlways RetryPolicy = iota
	// RetryIfNothingDone is for calls that create something: only an error that proves that nothing was created
	// permits a repetition. After a lost response the caller has to search for the object first (see
	// Spec.MaybeCreated), and the object may appear later than any search that a decorator could make.
	RetryIfNothingDone
	// RetryUnlessTimedOut is for calls that remove what an earlier attempt created (see ImageSpec.MaybeCreated). A
	// call that used up its own timeout is not repeated, because the repetition would take as long.
	RetryUnlessTimedOut
)

// TimeoutClass selects the timeout of a call.
type TimeoutClass int

// The timeout classes.
const (
	Single TimeoutClass = iota // one object
	Paged                      // a list of any length
	Upload                     // an image
)

// Decorator wraps a call: it calls next once, several times or not at all.
type Decorator func(ctx context.Context, call Call, next func(context.Context) error) error

// chain combines decorators into one; the first is the outermost.
func chain(arounds ...Decorator) Decorator {
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		for i := len(arounds) - 1; i >= 0; i-- {
			around, inner := arounds[i], next
			next = func(ctx context.Context) error { return around(ctx, call, inner) }
		}
		return next(ctx)
	}
}

// Wrap applies a decorator to all calls of a Cloud, including those of its abilities (see ImagesOf and similar
// functions).
func Wrap(c Cloud, around Decorator) Cloud { return &decoratedCloud{c, around} }

// do runs a call that returns a value through a decorator.
func do[T any](ctx context.Context, around Decorator, call Call, f func(context.Context) (T, error)) (T, error) {
	var result T
	err := around(ctx, call, func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	})
	return result, err
}
