package drivers

// These functions find the abilities of a Cloud and replace type assertions, so that a decorated Cloud has exactly
// the abilities of the Cloud below.

// ImagesOf returns the Cloud's image store, decorated as the Cloud is.
func ImagesOf(c Cloud) (ImageStore, bool) {
	inner, around, decorated := unwrapped(c)
	store, ok := inner.(ImageStore)
	if ok && decorated {
		return &decoratedImages{store, around}, true
	}
	return store, ok
}

// SnapshotterOf returns the Cloud's snapshots, decorated as the Cloud is.
func SnapshotterOf(c Cloud) (Snapshotter, bool) {
	inner, around, decorated := unwrapped(c)
	snapshots, ok := inner.(Snapshotter)
	if ok && decorated {
		return &decoratedSnapshots{snapshots, around}, true
	}
	return snapshots, ok
}

// ResolverOf returns the Cloud's resolver, decorated as the Cloud is.
func ResolverOf(c Cloud) (Resolver, bool) {
	inner, around, decorated := unwrapped(c)
	resolver, ok := inner.(Resolver)
	if ok && decorated {
		return &decoratedResolver{resolver, around}, true
	}
	return resolver, ok
}

// SweeperOf returns the Cloud's sweeper, decorated as the Cloud is.
func SweeperOf(c Cloud) (Sweeper, bool) {
	inner, around, decorated := unwrapped(c)
	sweeper, ok := inner.(Sweeper)
	if ok && decorated {
		return &decoratedSweeper{sweeper, around}, true
	}
	return sweeper, ok
}

// ConsoleOf returns the Cloud's console, decorated as the Cloud is.
func ConsoleOf(c Cloud) (Console, bool) {
	inner, around, decorated := unwrapped(c)
	console, ok := inner.(Console)
	if ok && decorated {
		return &decoratedConsole{console, around}, true
	}
	return console, ok
}

// CheckerOf returns the Cloud's checker, decorated as the Cloud is.
func CheckerOf(c Cloud) (Checker, bool) {
	inner, around, decorated := unwrapped(c)
	checker, ok := inner.(Checker)
	if ok && decorated {
		return &decoratedChecker{checker, around}, true
	}
	return checker, ok
}

// As finds any other ability: a T that the Cloud implements, or the Cloud below all decorators. Calls through T
// bypass the decorators.
func As[T any](c Cloud) (T, bool) {
	if found, ok := c.(T); ok {
		return found, true
	}
	inner, _, _ := unwrapped(c)
	found, ok := inner.(T)
	return found, ok
}

// unwrapped returns the Cloud below all decorators, and the decorators as one.
func unwrapped(c Cloud) (Cloud, Decorator, bool) {
	var arounds []Decorator
	for {
		d, ok := c.(*decoratedCloud)
		if !ok {
			return c, chain(arounds...), len(arounds) > 0
		}
		arounds = append(arounds, d.around)
		c = d.inner
	}
}
