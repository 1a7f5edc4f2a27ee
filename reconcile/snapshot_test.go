package reconcile_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/snapshot"
	"github.com/npctl/npctl/resources"
)

// snapshot returns a snapshot that another process has written.
func (l *baseLab) snapshot() *snapshot.Snapshot {
	l.t.Helper()
	engine, end := l.engine()
	defer end()
	seen, err := engine.Observe(l.t.Context(), true)
	testutil.Must(l.t, err)
	s, err := engine.Snapshot(l.t.Context(), plan.Meta{Lineage: seen.Installation, Created: seen.Now}, &seen)
	testutil.Must(l.t, err)
	doc, err := s.JSON()
	testutil.Must(l.t, err)
	s, err = snapshot.Read(doc)
	testutil.Must(l.t, err)
	return s
}

func anyFile(string) error { return nil }

// snapshotEffect returns the effect of the change with a snapshot, and the codes of the notes of the head.
func (l *baseLab) snapshotEffect(s *snapshot.Snapshot) (plan.Effect, []string) {
	l.t.Helper()
	requests := l.requests.Load()
	was, _, err := l.base.ObserveSnapshot(l.t.Context(), s, anyFile)
	testutil.Must(l.t, err)
	is, notes, err := l.head.ObserveSnapshot(l.t.Context(), s, anyFile)
	testutil.Must(l.t, err)
	side := func(d resources.Desired, seen plan.Observed) plan.Side {
		return plan.Side{Desired: d, Observed: seen, Plan: plan.Compute(d, seen, plan.Options{})}
	}
	e := plan.EffectOf(side(l.base.Desired, was), side(l.head.Desired, is), nil)
	if n := l.requests.Load() - requests; n > 0 {
		l.t.Errorf("%d requests to the clouds", n)
	}
	var codes []string
	for _, n := range notes {
		codes = append(codes, n.Code)
	}
	return e, codes
}

// The effect with a snapshot is that with the clouds.
func TestSnapshotHasTheEffectOfTheClouds(t *testing.T) {
	for name, replacements := range map[string][]string{
		"another count":      {"min_ready = 2", "min_ready = 3"},
		"another flavor":     {`flavor = "large"`, `flavor = "medium"`},
		"an unknown flavor":  {`flavor = "large"`, `flavor = "lagre"`},
		"an unknown network": {`networks          = ["private"]`, `networks          = ["privat"]`},
		"no floating IP":     {`auto_floating_ip  = true`, `auto_floating_ip  = false`},
		"another name":       {`diskimage "debian"`, "moved {\n  from = diskimage.debian\n  to = diskimage.other\n}\ndiskimage \"other\"", "diskimage.debian\n", "diskimage.other\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newBaseLab(t, twoClouds)
			s := l.snapshot()
			l.change(replacements...)
			want := l.effect()
			got, notes := l.snapshotEffect(s)
			if got.Empty() || len(notes) > 0 {
				t.Errorf("effect: %s, notes: %q", got, notes)
			}
			if want.String() != got.String() || want.Digest() != got.Digest() {
				t.Errorf("%s with the clouds, %s with a snapshot", want, got)
			}
			if diff := cmp.Diff(want.Problems, got.Problems); diff != "" {
				t.Errorf("problems (-clouds +snapshot):\n%s", diff)
			}
			values := func(steps []plan.Step) (all []map[string]string) {
				for _, s := range steps {
					all = append(all, s.Values)
				}
				return all
			}
			if diff := cmp.Diff(values(want.Steps()), values(got.Steps())); diff != "" {
				t.Errorf("values (-clouds +snapshot):\n%s", diff)
			}
		})
	}
}

func TestSnapshotSaysWhatItCannotAnswer(t *testing.T) {
	l := newBaseLab(t, twoClouds)
	s := l.snapshot()
	_, rest, _ := strings.Cut(twoClouds, `provider "lab" "two"`)
	l.driver.Clouds["new"] = l.driver.Clouds["two"]
	l.change(`flavor = "large"`, `flavor = "medium"`, `provider "lab" "two"`, `provider "lab" "new"`+rest+`provider "lab" "two"`)
	for name, p := range s.Providers {
		p.Catalogue = nil
		s.Providers[name] = p
	}
	e, codes := l.snapshotEffect(s)
	slices.Sort(codes)
	if want := []string{"counts-as-empty", "names-not-checked"}; !slices.Equal(codes, want) {
		t.Errorf("notes: %q, want %q", codes, want)
	}
	if len(e.Problems) > 0 {
		t.Errorf("problems: %v", e.Problems)
	}
}

func TestSnapshotHasNoObjectsOfOthersAndNoDataOfUsers(t *testing.T) {
	seen := plan.Observed{Installation: "here", Providers: map[string]plan.ProviderView{"one": {
		Instances: []resources.Instance{{ID: "own", Marks: resources.OwnerTags{Installation: "here"}, Login: resources.Login{Username: "hidden"}, Attributes: map[string]string{"a": "hidden"}},
			{ID: "adopted"}, {ID: "other", Name: "hidden"}},
		Images: []resources.RemoteImage{{ID: "image", Name: "hidden"}},
		Others: []resources.ExistingObject{{Program: "hidden"}},
	}}}
	seen.Records.Put(&resources.Node{ID: "1", Provider: "one", ExternalID: "adopted", UserData: "hidden", DriverData: "hidden", Access: "hidden"}, 1)
	seen.Records.Put(&resources.Request{ID: "1", Data: []byte(`"hidden"`)}, 2)
	l := newLab(t, twoClouds, emulator.Options{})
	engine, end := l.engine()
	defer end()
	s, err := engine.Snapshot(t.Context(), plan.Meta{}, &seen)
	testutil.Must(t, err)
	doc, err := s.JSON()
	testutil.Must(t, err)
	if strings.Contains(string(doc), "hidden") {
		t.Errorf("snapshot: %s", doc)
	}
	if n := len(s.Providers["one"].View.Instances); n != 2 {
		t.Errorf("%d instances, want those of npctl", n)
	}
}

// Each field of plan.Observed is in the snapshot, or depends on the configuration of a plan.
func TestSnapshotHasEachFieldOfTheObservedState(t *testing.T) {
	var seen plan.Observed
	value := reflect.ValueOf(&seen).Elem()
	for i := range value.NumField() {
		fill(value.Field(i))
	}
	seen.Records = plan.Records{}
	seen.Records.Put(&resources.Node{ID: "1", Provider: "one"}, 7)
	seen.Records.Put(&resources.Request{ID: "2"}, 8)
	s, err := snapshot.New(plan.Meta{Lineage: seen.Installation, Created: seen.Now}, nil, &seen)
	testutil.Must(t, err)
	doc, err := s.JSON()
	testutil.Must(t, err)
	s, err = snapshot.Read(doc)
	testutil.Must(t, err)
	back, err := s.Observed()
	testutil.Must(t, err)
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		got := reflect.ValueOf(back).Field(i).Interface()
		switch {
		case name == "Tools": // of the host of the builds, although it depends on the configuration
		case ownFields[name] && name != "Versions":
			continue
		}
		if want := value.Field(i).Interface(); !reflect.DeepEqual(want, got) {
			t.Errorf("%s: observed %+v, in the snapshot %+v", name, want, got)
		}
	}
}

// fill gives a value that is not zero.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1e9, 0).UTC()))
		return
	case plan.Step:
		v.Set(reflect.ValueOf(plan.Step{ID: "x", Kind: plan.KindServe}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint64:
		v.SetUint(4)
	case reflect.Float64:
		v.SetFloat(5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`"x"`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(element)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, element)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	}
}
