package drivers

// Abilities are looked up with these functions and not by type assertion, so that decorators neither hide what the
// Cloud below can do nor pretend what it cannot.

// Images returns the Cloud's image store, decorated as the Cloud is.
func Images(c Cloud) (ImageStore, bool) {
	inner, around, decorated := unwrapped(c)
	store, ok := inner.(ImageStore)
	if ok && decorated {
		return &decoratedImages{store, around}, true
	}
	return store, ok
}

// Snapshotting returns the Cloud's snapshots, decorated as the Cloud is.
func Snapshotting(c Cloud) (Snapshots, bool) {
	inner, around, decorated := unwrapped(c)
	snapshots, ok := inner.(Snapshots)
	if ok && decorated {
		return &decoratedSnapshots{snapshots, around}, true
	}
	return snapshots, ok
}

// Resolving returns the Cloud's resolver, decorated as the Cloud is.
func Resolving(c Cloud) (Resolver, bool) {
	inner, around, decorated := unwrapped(c)
	resolver, ok := inner.(Resolver)
	if ok && decorated {
		return &decoratedResolver{resolver, around}, true
	}
	return resolver, ok
}

// Sweeping returns the Cloud's sweeper, decorated as the Cloud is.
func Sweeping(c Cloud) (Sweeper, bool) {
	inner, around, decorated := unwrapped(c)
	sweeper, ok := inner.(Sweeper)
	if ok && decorated {
		return &decoratedSweeper{sweeper, around}, true
	}
	return sweeper, ok
}

// Consoles returns the Cloud's console, decorated as the Cloud is.
func Consoles(c Cloud) (Console, bool) {
	inner, around, decorated := unwrapped(c)
	console, ok := inner.(Console)
	if ok && decorated {
		return &decoratedConsole{console, around}, true
	}
	return console, ok
}

// Checking returns the Cloud's checker, decorated as the Cloud is.
func Checking(c Cloud) (Checker, bool) {
	inner, around, decorated := unwrapped(c)
	checker, ok := inner.(Checker)
	if ok && decorated {
		return &decoratedChecker{checker, around}, true
	}
	return checker, ok
}

// As looks for any other ability: T of the Cloud itself or of what it decorates, past the decorators.
func As[T any](c Cloud) (T, bool) {
	if found, ok := c.(T); ok {
		return found, true
	}
	inner, _, _ := unwrapped(c)
	found, ok := inner.(T)
	return found, ok
}

// unwrapped returns the Cloud below all decorators, and the decorators as one.
func unwrapped(c Cloud) (Cloud, Around, bool) {
	var arounds []Around
	for {
		d, ok := c.(*decoratedCloud)
		if !ok {
			return c, chain(arounds...), len(arounds) > 0
		}
		arounds = append(arounds, d.around)
		c = d.inner
	}
}
