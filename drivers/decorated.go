package drivers

import (
	"context"
	"fmt"
	"io"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

// The decorated forms of Cloud and of each ability: every call passes through one Decorator.

// decorated is an ability with its decorator.
type decorated[T any] struct {
	inner  T
	around Decorator
}

type decoratedCloud struct {
	inner     Cloud
	around    Decorator
	deletions *deletions // if inner is a BatchDeleter
}

var _ Cloud = (*decoratedCloud)(nil)

func (d *decoratedCloud) Create(ctx context.Context, spec Spec) (resources.Instance, error) {
	call := Call{Name: "create", Subject: spec.Marks.ID, Retry: retryIfNothingDone}
	return do(ctx, d.around, call, func(ctx context.Context) (resources.Instance, error) { return d.inner.Create(ctx, spec) })
}

func (d *decoratedCloud) Advance(ctx context.Context, spec Spec, seen resources.Instance) (resources.Instance, error) {
	call := Call{Name: "advance", Subject: spec.Marks.ID, Retry: retryIfNothingDone}
	return do(ctx, d.around, call, func(ctx context.Context) (resources.Instance, error) { return d.inner.Advance(ctx, spec, seen) })
}

func (d *decoratedCloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	if d.deletions != nil {
		return d.deletions.delete(ctx, id, expected)
	}
	return d.around(ctx, Call{Name: "delete", Subject: id}, func(ctx context.Context) error { return d.inner.Delete(ctx, id, expected) })
}

func (d *decoratedCloud) List(ctx context.Context) ([]resources.Instance, error) {
	return do(ctx, d.around, Call{Name: "list", Weight: paged}, d.inner.List)
}

func (d *decoratedCloud) Quota(ctx context.Context) (resources.Quota, error) {
	return do(ctx, d.around, Call{Name: "quota"}, d.inner.Quota)
}

// Close waits for deletions that have been sent.
func (d *decoratedCloud) Close() error {
	if d.deletions != nil {
		d.deletions.running.Wait()
	}
	return d.inner.Close()
}

type decoratedImages decorated[ImageStore]

func (d *decoratedImages) ImageFormat() string { return d.inner.ImageFormat() }

func (d *decoratedImages) UploadImage(ctx context.Context, spec ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	call := Call{Name: "upload_image", Subject: spec.Name, Retry: retryUnlessTimedOut, Weight: wholeImage}
	return do(ctx, d.around, call, func(ctx context.Context) (resources.RemoteImage, error) {
		image, err := d.inner.UploadImage(ctx, spec, content)
		spec.MaybeCreated = spec.MaybeCreated || !IsNothingDone(err)
		return image, err
	})
}

func (d *decoratedImages) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	call := Call{Name: "delete_image", Subject: id}
	return d.around(ctx, call, func(ctx context.Context) error { return d.inner.DeleteImage(ctx, id, expected) })
}

func (d *decoratedImages) ListImages(ctx context.Context) ([]resources.RemoteImage, error) {
	return do(ctx, d.around, Call{Name: "list_images", Weight: paged}, d.inner.ListImages)
}

// The calls that often send no request.
const (
	callResolveOffer   = "resolve_offer"
	callResolveImage   = "resolve_image"
	callFinishDeletion = "finish_deletion"
)

type decoratedResolver decorated[Resolver]

func (d *decoratedResolver) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	var problems []resources.Problem
	offer, err := do(ctx, d.around, Call{Name: callResolveOffer, Weight: paged}, func(ctx context.Context) (offer resources.ResolvedOffer, err error) {
		offer, problems, err = d.inner.ResolveOffer(ctx, config)
		return offer, err
	})
	return offer, problems, err
}

func (d *decoratedResolver) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	var problems []resources.Problem
	call := Call{Name: callResolveImage, Subject: spec.Name, Weight: paged}
	image, err := do(ctx, d.around, call, func(ctx context.Context) (image resources.RemoteImage, err error) {
		image, problems, err = d.inner.ResolveImage(ctx, spec)
		return image, err
	})
	return image, problems, err
}

type decoratedCataloguer decorated[Cataloguer]

func (d *decoratedCataloguer) Catalogue(ctx context.Context) (resources.Catalogue, error) {
	return do(ctx, d.around, Call{Name: "catalogue", Weight: paged}, d.inner.Catalogue)
}

type decoratedSweeper decorated[Sweeper]

func (d *decoratedSweeper) Leftovers(ctx context.Context) ([]resources.Leftover, error) {
	return do(ctx, d.around, Call{Name: "leftovers", Weight: paged}, d.inner.Leftovers)
}

func (d *decoratedSweeper) DeleteLeftover(ctx context.Context, l resources.Leftover) error {
	call := Call{Name: "delete_leftover", Subject: l.Type + " " + l.ID}
	return d.around(ctx, call, func(ctx context.Context) error { return d.inner.DeleteLeftover(ctx, l) })
}

type decoratedFinisher decorated[Finisher]

func (d *decoratedFinisher) FinishDeletion(ctx context.Context, id string) error {
	return d.around(ctx, Call{Name: callFinishDeletion, Subject: id}, func(ctx context.Context) error { return d.inner.FinishDeletion(ctx, id) })
}

type decoratedConsole decorated[Console]

func (d *decoratedConsole) ConsoleLog(ctx context.Context, id string) (string, error) {
	return do(ctx, d.around, Call{Name: "console_log", Subject: id}, func(ctx context.Context) (string, error) { return d.inner.ConsoleLog(ctx, id) })
}

type decoratedAccessor decorated[Accessor]

func (d *decoratedAccessor) Access(ctx context.Context, id string) (string, error) {
	return do(ctx, d.around, Call{Name: "access", Subject: id}, func(ctx context.Context) (string, error) { return d.inner.Access(ctx, id) })
}

type decoratedNodeUser decorated[NodeUser]

func (d *decoratedNodeUser) Unneeded(ctx context.Context, offers []cty.Value) ([]resources.UnneededNode, error) {
	return do(ctx, d.around, Call{Name: "unneeded"}, func(ctx context.Context) ([]resources.UnneededNode, error) { return d.inner.Unneeded(ctx, offers) })
}

func (d *decoratedNodeUser) ReturnNode(ctx context.Context, request string) error {
	call := Call{Name: "return_node", Subject: request, Retry: retryIfNothingDone}
	return d.around(ctx, call, func(ctx context.Context) error { return d.inner.ReturnNode(ctx, request) })
}

func (d *decoratedNodeUser) Unreachable(ctx context.Context, id string) error {
	return d.around(ctx, Call{Name: "unreachable", Subject: id}, func(ctx context.Context) error { return d.inner.Unreachable(ctx, id) })
}

const callCheck = "check"

type decoratedAdopter decorated[Adopter]

func (d *decoratedAdopter) LookUp(ctx context.Context, kind resources.Kind, id string) (resources.ExistingObject, bool, error) {
	var found bool
	object, err := do(ctx, d.around, Call{Name: "look_up", Subject: id}, func(ctx context.Context) (object resources.ExistingObject, err error) {
		object, found, err = d.inner.LookUp(ctx, kind, id)
		return object, err
	})
	return object, found, err
}

func (d *decoratedAdopter) ListOthers(ctx context.Context) ([]resources.ExistingObject, error) {
	return do(ctx, d.around, Call{Name: "list_others"}, d.inner.ListOthers)
}

func (d *decoratedAdopter) Adopt(ctx context.Context, id string, marks, replaced resources.OwnerTags) error {
	return d.around(ctx, Call{Name: "adopt", Subject: id}, func(ctx context.Context) error { return d.inner.Adopt(ctx, id, marks, replaced) })
}

func (d *decoratedAdopter) Release(ctx context.Context, id string, marks resources.OwnerTags) error {
	return d.around(ctx, Call{Name: "release", Subject: id}, func(ctx context.Context) error { return d.inner.Release(ctx, id, marks) })
}

type decoratedChecker decorated[Checker]

func (d *decoratedChecker) Check(ctx context.Context, node resources.StaticNode) ([]string, error) {
	return do(ctx, d.around, Call{Name: callCheck, Subject: node.Name}, func(ctx context.Context) ([]string, error) { return d.inner.Check(ctx, node) })
}

// SnapshotChecker is a Cloud that can report from an offer's configuration, a value of the type of Schema().Label,
// that its instances do not support snapshots. CheckSnapshot makes no API call, so callers use As to find it.
type SnapshotChecker interface {
	CheckSnapshot(offer cty.Value) error
}

type decoratedSnapshots decorated[Snapshotter]

func (d *decoratedSnapshots) Snapshot(ctx context.Context, instance, name string, marks resources.OwnerTags) (string, error) {
	call := Call{Name: "snapshot", Subject: instance, Retry: retryIfNothingDone}
	return do(ctx, d.around, call, func(ctx context.Context) (string, error) { return d.inner.Snapshot(ctx, instance, name, marks) })
}

// ReadImage decorates only the start of the stream. The stream outlives the call and therefore the timeout that the
// decorators set: it ends with the caller's ctx, or when it is closed.
func (d *decoratedSnapshots) ReadImage(ctx context.Context, id string) (io.ReadCloser, resources.RemoteImage, error) {
	var content io.ReadCloser
	call := Call{Name: "read_image", Subject: id}
	image, err := do(ctx, d.around, call, func(limited context.Context) (image resources.RemoteImage, err error) {
		stream, stop := context.WithCancelCause(ctx)
		inTime := context.AfterFunc(limited, func() { stop(context.Cause(limited)) })
		opened, image, err := d.inner.ReadImage(stream, id)
		switch late := !inTime(); {
		case late && err == nil:
			err = fmt.Errorf("%s: %w", call, limited.Err())
			_ = opened.Close()
		case late:
			err = fmt.Errorf("%w: %w", limited.Err(), err) // the driver only sees that its context was cancelled
		}
		if err != nil {
			stop(nil)
			return image, err
		}
		content = &openStream{opened, func() { stop(nil) }}
		return image, nil
	})
	return content, image, err
}

// openStream releases its context when it is closed.
type openStream struct {
	io.ReadCloser
	free func()
}

func (s *openStream) Close() error {
	defer s.free()
	return s.ReadCloser.Close()
}

// These functions find the abilities of a Cloud and replace type assertions, so that a decorated Cloud has exactly
// the abilities of the Cloud below.

// ImagesOf returns the Cloud's image store, decorated as the Cloud is.
func ImagesOf(c Cloud) (ImageStore, bool) {
	return abilityOf(c, func(inner ImageStore, around Decorator) ImageStore { return &decoratedImages{inner, around} })
}

// SnapshotterOf returns the Cloud's snapshots, decorated as the Cloud is.
func SnapshotterOf(c Cloud) (Snapshotter, bool) {
	return abilityOf(c, func(inner Snapshotter, around Decorator) Snapshotter { return &decoratedSnapshots{inner, around} })
}

// ResolverOf returns the Cloud's resolver, decorated as the Cloud is.
func ResolverOf(c Cloud) (Resolver, bool) {
	return abilityOf(c, func(inner Resolver, around Decorator) Resolver { return &decoratedResolver{inner, around} })
}

// CataloguerOf returns the Cloud's cataloguer, decorated as the Cloud is.
func CataloguerOf(c Cloud) (Cataloguer, bool) {
	return abilityOf(c, func(inner Cataloguer, around Decorator) Cataloguer { return &decoratedCataloguer{inner, around} })
}

// SweeperOf returns the Cloud's sweeper, decorated as the Cloud is.
func SweeperOf(c Cloud) (Sweeper, bool) {
	return abilityOf(c, func(inner Sweeper, around Decorator) Sweeper { return &decoratedSweeper{inner, around} })
}

// FinisherOf returns the Cloud's finisher, decorated as the Cloud is.
func FinisherOf(c Cloud) (Finisher, bool) {
	return abilityOf(c, func(inner Finisher, around Decorator) Finisher { return &decoratedFinisher{inner, around} })
}

// ConsoleOf returns the Cloud's console, decorated as the Cloud is.
func ConsoleOf(c Cloud) (Console, bool) {
	return abilityOf(c, func(inner Console, around Decorator) Console { return &decoratedConsole{inner, around} })
}

// AccessorOf returns the Cloud's accessor, decorated as the Cloud is.
func AccessorOf(c Cloud) (Accessor, bool) {
	return abilityOf(c, func(inner Accessor, around Decorator) Accessor { return &decoratedAccessor{inner, around} })
}

// NodeUserOf returns the Cloud's use of other nodes, decorated as the Cloud is.
func NodeUserOf(c Cloud) (NodeUser, bool) {
	return abilityOf(c, func(inner NodeUser, around Decorator) NodeUser { return &decoratedNodeUser{inner, around} })
}

// AdopterOf returns the Cloud's adopter, decorated as the Cloud is.
func AdopterOf(c Cloud) (Adopter, bool) {
	return abilityOf(c, func(inner Adopter, around Decorator) Adopter { return &decoratedAdopter{inner, around} })
}

// CheckerOf returns the Cloud's checker, decorated as the Cloud is.
func CheckerOf(c Cloud) (Checker, bool) {
	return abilityOf(c, func(inner Checker, around Decorator) Checker { return &decoratedChecker{inner, around} })
}

// abilityOf returns a T that the Cloud below all decorators implements, decorated if the Cloud is.
func abilityOf[T any](c Cloud, decorate func(T, Decorator) T) (T, bool) {
	inner, around, decorated := unwrapped(c)
	ability, ok := inner.(T)
	if ok && decorated {
		ability = decorate(ability, around)
	}
	return ability, ok
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
