package drivers

import "context"

// Call describes one call of a Cloud to decorators.
type Call struct {
	Name    string // such as create, list or upload_image
	Subject string // the object of the call: a node's ID, an image's name; empty for lists
	// Retry states when the call may be repeated after an error.
	Retry retryPolicy
	// Weight states how long the call may take.
	Weight timeoutClass
}

// retryPolicy states when a call may be repeated.
type retryPolicy int

const (
	// retryAlways is for calls that are safe to repeat: lists, lookups, deletions.
	retryAlways retryPolicy = iota //nolint:unused // the zero value
	// retryIfNothingDone is for calls that create something: only an error that proves that nothing was created
	// permits a repetition. After a lost response the caller has to search for the object first (see
	// Spec.MaybeCreated), and the object may appear later than any search that a decorator could make.
	retryIfNothingDone
	// retryUnlessTimedOut is for calls that remove what an earlier attempt created (see ImageSpec.MaybeCreated). A
	// call that used up its own timeout is not repeated, because the repetition would take as long.
	retryUnlessTimedOut
)

// timeoutClass selects the timeout of a call.
type timeoutClass int

// The timeout classes.
const (
	single     timeoutClass = iota // one object
	paged                          // a list of any length
	wholeImage                     // an image
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
