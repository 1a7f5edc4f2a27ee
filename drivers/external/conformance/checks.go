package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

func open(ctx context.Context, r *run) (err error) {
	r.cloud, err = r.Open(ctx)
	return err
}

func settings(ctx context.Context, r *run) error {
	resolver, ok := drivers.ResolverOf(r.cloud)
	if !ok {
		return errOmitted
	}
	offer, problems, err := resolver.ResolveOffer(ctx, r.Config)
	if err != nil {
		return err
	}
	for _, p := range problems {
		err = errors.Join(err, fmt.Errorf("%s: %s %q", p.Attribute, p.Detail, p.Suggestions))
	}
	r.offer = offer
	return err
}

func quota(ctx context.Context, r *run) error {
	q, err := r.cloud.Quota(ctx)
	if err == nil && (q.Limit.Instances == 0 || q.Limit.Cores == 0 || q.Limit.RAM == 0) {
		err = fmt.Errorf("a limit of 0 permits nothing: %+v; without a limit, omit it", q.Limit)
	}
	return err
}

func create(ctx context.Context, r *run) error {
	r.spec = r.newSpec()
	made, err := r.cloud.Create(ctx, r.spec)
	if err == nil && made.Marks != r.spec.Marks {
		err = fmt.Errorf("the tags are %+v, want %+v", made.Marks, r.spec.Marks)
	}
	return err
}

func becomesReady(ctx context.Context, r *run) (err error) {
	r.ready, err = r.waitReady(ctx, r.spec)
	if err != nil {
		return err
	}
	i := r.ready
	switch {
	case i.Marks != r.spec.Marks:
		return fmt.Errorf("the tags are %+v, want %+v", i.Marks, r.spec.Marks)
	case i.Name != r.spec.Hostname:
		return fmt.Errorf("the name is %q, want %q", i.Name, r.spec.Hostname)
	case i.Addresses.Interface == "":
		return errors.New("the instance has no addresses.interface, the address for connections")
	case i.Created.IsZero():
		return errors.New("the instance has no time of creation")
	}
	return nil
}

// waitReady lists and advances an instance until it is ready.
func (r *run) waitReady(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	var now resources.Instance
	failed := error(nil)
	err := r.eventually(ctx, func() (err error) {
		if now, err = r.listed(ctx, r.cloud, spec.Marks); err != nil {
			return err
		}
		if now, err = r.cloud.Advance(ctx, spec, now); err != nil {
			return err
		}
		switch now.Status {
		case resources.StatusReady:
			return nil
		case resources.StatusFailed:
			failed = fmt.Errorf("instance %s failed: %s", now.ID, now.Fault)
			return nil
		default:
			return fmt.Errorf("instance %s is %s", now.ID, now.Status)
		}
	})
	return now, errors.Join(err, failed)
}

func resourcesMatch(_ context.Context, r *run) error {
	if r.offer.Flavor == "" {
		return errOmitted
	}
	if !reflect.DeepEqual(r.offer.Resources, r.ready.Resources) {
		return fmt.Errorf("resolve_offer returned %+v, the instance uses %+v", r.offer.Resources, r.ready.Resources)
	}
	return nil
}

func listedAgain(ctx context.Context, r *run) error {
	other, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer other.Close() //nolint:errcheck // a provider without connection
	again, err := r.listed(ctx, other, r.spec.Marks)
	if err == nil && !reflect.DeepEqual(again, r.ready) {
		err = fmt.Errorf("the instance is now %+v, before %+v", again, r.ready)
	}
	return err
}

func createAgain(ctx context.Context, r *run) error {
	spec := r.spec
	spec.MaybeCreated = true
	again, err := r.cloud.Create(ctx, spec)
	if err == nil && again.ID != r.ready.ID {
		err = fmt.Errorf("create with maybe_created returned %s, want %s", again.ID, r.ready.ID)
	}
	if err == nil {
		_, err = r.listed(ctx, r.cloud, spec.Marks)
	}
	return err
}

// killedCreate kills creates at several moments and repeats each of them.
func killedCreate(ctx context.Context, r *run) error {
	for _, moment := range []time.Duration{2 * time.Millisecond, 20 * time.Millisecond} {
		spec := r.newSpec()
		limited, cancel := context.WithTimeout(ctx, moment)
		_, err := r.cloud.Create(limited, spec)
		cancel()
		spec.MaybeCreated = err != nil
		made, err := r.cloud.Create(ctx, spec)
		if err != nil {
			return fmt.Errorf("create after one that was killed after %s: %w", moment, err)
		}
		now, err := r.waitReady(ctx, spec)
		if err != nil {
			return fmt.Errorf("after a create that was killed after %s: %w", moment, err)
		}
		if now.ID != made.ID {
			return fmt.Errorf("create returned %s, list %s", made.ID, now.ID)
		}
	}
	return nil
}

// together is the number of creates at the same time.
const together = 4

func parallel(ctx context.Context, r *run) error {
	specs, ids, errs := make([]drivers.Spec, together), make([]string, together), make([]error, together)
	for i := range specs {
		specs[i] = r.newSpec()
	}
	var wait sync.WaitGroup
	for i, spec := range specs {
		wait.Go(func() {
			made, err := r.cloud.Create(ctx, spec)
			ids[i], errs[i] = made.ID, err
		})
	}
	wait.Wait()
	for i, spec := range specs {
		if errs[i] != nil {
			continue
		}
		now, err := r.waitReady(ctx, spec)
		if err == nil && now.ID != ids[i] {
			err = fmt.Errorf("create of %s returned %s, list %s", spec.Marks.ID, ids[i], now.ID)
		}
		errs[i] = err
	}
	return errors.Join(errs...)
}

func unknownSetting(ctx context.Context, r *run) error {
	spec := r.newSpec()
	values := r.Config.AsValueMap()
	values["settings"] = cty.MapVal(map[string]cty.Value{"no_such_setting": cty.StringVal("x")})
	spec.Config = cty.ObjectVal(values)
	_, err := r.cloud.Create(ctx, spec)
	if !errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) {
		return fmt.Errorf("create returned %w, want a rejection that did nothing", err)
	}
	return nil
}

func console(ctx context.Context, r *run) error {
	c, ok := drivers.ConsoleOf(r.cloud)
	if !ok {
		return errOmitted
	}
	_, err := c.ConsoleLog(ctx, r.ready.ID)
	return err
}

func access(ctx context.Context, r *run) error {
	c, ok := drivers.AccessorOf(r.cloud)
	if !ok {
		return errOmitted
	}
	text, err := c.Access(ctx, r.ready.ID)
	var object map[string]any
	switch {
	case err != nil:
		return err
	case json.Unmarshal([]byte(text), &object) != nil || len(object) == 0:
		return errors.New("access is no JSON object") // without the text, which is a secret
	case r.ready.Login.ConnectionType == "":
		return errors.New("the instance has no login.connection_type")
	}
	return nil
}

func otherOwners(ctx context.Context, r *run) error {
	id, installation, kind := r.spec.Marks, r.spec.Marks, r.spec.Marks
	id.ID += "1"
	installation.Installation += "-other"
	kind.Kind = resources.KindBuild
	for _, other := range []resources.OwnerTags{id, installation, kind, {}} {
		if err := r.cloud.Delete(ctx, r.ready.ID, other); !errors.Is(err, drivers.ErrNotOurs) {
			return fmt.Errorf("delete that expects %+v returned %w, want the error not_ours", other, err)
		}
	}
	now, err := r.listed(ctx, r.cloud, r.spec.Marks)
	if err == nil && now.Status != resources.StatusReady {
		err = fmt.Errorf("instance %s is %s", now.ID, now.Status)
	}
	return err
}

func deleteMissing(ctx context.Context, r *run) error {
	return r.cloud.Delete(ctx, "00000000-0000-4000-8000-00000000dead", r.spec.Marks)
}

func deleteTwice(ctx context.Context, r *run) error {
	for range 2 {
		if err := r.cloud.Delete(ctx, r.ready.ID, r.spec.Marks); err != nil {
			return err
		}
	}
	return r.eventually(ctx, func() error {
		list, err := r.cloud.List(ctx)
		for _, i := range list {
			if i.ID == r.ready.ID {
				err = fmt.Errorf("instance %s is still listed, as %s", i.ID, i.Status)
			}
		}
		if err == nil {
			err = r.cloud.Delete(ctx, r.ready.ID, r.spec.Marks)
		}
		return err
	})
}
