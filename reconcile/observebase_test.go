package reconcile_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// baseLab observes two configurations.
type baseLab struct {
	*lab
	before     resources.Desired // of the base
	head, base *reconcile.Engine
	seen       plan.Observed // by the head
}

// newBaseLab applies the base.
func newBaseLab(t *testing.T, base string) *baseLab {
	t.Helper()
	l := &baseLab{lab: newLab(t, base, emulator.Options{})}
	engine, end := l.engine()
	defer end()
	seen, err := engine.Observe(t.Context(), true)
	testutil.Must(t, err)
	_, err = engine.Execute(t.Context(), plan.Compute(engine.Desired, seen, plan.Options{}), plan.Options{}, seen)
	testutil.Must(t, err)
	l.before = engine.Desired
	return l
}

// change observes the head, which has the replacements.
func (l *baseLab) change(replacements ...string) *baseLab {
	l.t.Helper()
	base := l.config
	if l.config = strings.NewReplacer(replacements...).Replace(base); l.config == base {
		l.t.Fatal("the replacements change nothing")
	}
	var end func()
	l.head, end = l.engine()
	l.t.Cleanup(end)
	l.base = l.head.With(l.before)
	var err error
	l.seen, err = l.head.Observe(l.t.Context(), true)
	testutil.Must(l.t, err)
	return l
}

// observeBase returns the observed state of the base, and the number of requests to the clouds.
func (l *baseLab) observeBase() (plan.Observed, int64) {
	l.t.Helper()
	before := l.requests.Load()
	seen, err := l.head.ObserveBase(l.t.Context(), l.base, l.seen, true)
	testutil.Must(l.t, err)
	return seen, l.requests.Load() - before
}

// effect returns the effect of the change.
func (l *baseLab) effect() plan.Effect {
	l.t.Helper()
	seen, _ := l.observeBase()
	side := func(d resources.Desired, seen plan.Observed) plan.Side {
		return plan.Side{Desired: d, Observed: seen, Plan: plan.Compute(d, seen, plan.Options{})}
	}
	return plan.EffectOf(side(l.base.Desired, seen), side(l.head.Desired, l.seen), nil)
}

// ownFields are the fields of plan.Observed that each side of a comparison has for itself.
var ownFields = map[string]bool{"Inputs": true, "InputErrors": true, "Tools": true, "InstanceOffers": true, "Formats": true, "Versions": true, "Providers": true}

func TestBaseSharesTheWorld(t *testing.T) {
	l := newBaseLab(t, twoClouds).change(`flavor = "large"`, `flavor = "medium"`)
	base, _ := l.observeBase()
	record := testutil.ReadFile(t, filepath.Join("..", "docs", "decisions", "0048-the-effect-of-a-change.md"))
	for i := range reflect.TypeFor[plan.Observed]().NumField() {
		name := reflect.TypeFor[plan.Observed]().Field(i).Name
		if !strings.Contains(record, "`"+name+"`") {
			t.Errorf("decision 0048 does not say whether both plans share %s", name)
		}
		if !ownFields[name] && !reflect.DeepEqual(reflect.ValueOf(base).Field(i).Interface(), reflect.ValueOf(l.seen).Field(i).Interface()) {
			t.Errorf("%s is not shared", name)
		}
	}
	large := plan.OfferKey{Pool: "main", Label: "large"}
	is, was := l.seen.Providers["two"], base.Providers["two"]
	if reflect.DeepEqual(is.Offers[large], was.Offers[large]) {
		t.Error("both sides have the same flavor")
	}
	is.Offers, was.Offers = nil, nil
	is.CloudImages, was.CloudImages = nil, nil
	is.Imports, was.Imports = nil, nil
	if !reflect.DeepEqual(is, was) {
		t.Error("the listing is not shared")
	}
}

func TestBaseWithoutDifferencesNeedsNoRequests(t *testing.T) {
	l := newBaseLab(t, twoClouds).change("min_ready = 2", "min_ready = 3")
	if _, requests := l.observeBase(); requests > 0 {
		t.Errorf("%d requests", requests)
	}
	if e := l.effect(); len(e.Added) != 1 || len(e.Dropped)+len(e.Altered) > 0 {
		t.Errorf("effect: %s", e)
	}
}

func TestRenamedProviderSharesItsListing(t *testing.T) {
	l := newBaseLab(t, twoClouds)
	l.driver.Clouds["three"] = l.driver.Clouds["two"]
	e := l.change(`provider "lab" "two"`, "moved {\n from = provider.two\n to = provider.three\n}\nprovider \"lab\" \"three\"").effect()
	for _, s := range e.Steps() {
		if s.Action != plan.ActionMove {
			t.Errorf("the effect of another name has the step %s", s.ID)
		}
	}
	if len(e.Dropped) > 0 || len(e.Added) == 0 {
		t.Errorf("effect: %s", e)
	}
}

// The connection of the base has other settings and leads to the same place.
func TestBaseWithOtherSettingsOfAProviderSharesItsListing(t *testing.T) {
	l := newBaseLab(t, twoClouds).change(`"two" {
  image_format = "raw"`, `"two" {
  image_format = "qcow2"`)
	base, _ := l.observeBase()
	if base.Formats["two"] != "raw" || l.seen.Formats["two"] != "qcow2" {
		t.Errorf("formats: %s before, %s after", base.Formats["two"], l.seen.Formats["two"])
	}
	if !base.Providers["two"].ListedAt.Equal(l.seen.Providers["two"].ListedAt) {
		t.Error("the listing is not shared")
	}
}

// The connection of the base leads to another place: otherwise all nodes would look lost there.
func TestBaseOfAProviderElsewhereHasItsOwnListing(t *testing.T) {
	l := newBaseLab(t, twoClouds).change(`"two" {
  image_format = "raw"`, `"two" {
  image_format = "qcow2"`)
	l.driver.moved["two"] = true // of the next connection
	base, _ := l.observeBase()
	if was, is := base.Providers["two"], l.seen.Providers["two"]; was.Err == "" && was.ListedAt.Equal(is.ListedAt) || was.Location == is.Location {
		t.Errorf("the provider is at %q for the base, and at %q for the head", was.Location, is.Location)
	}
}

func TestProviderOfTheHeadThatCannotBeListedIsEmpty(t *testing.T) {
	l := newBaseLab(t, twoClouds)
	l.driver.Clouds["nowhere"] = l.driver.Clouds["two"]
	connecting := l.driver.Connecting
	l.driver.Connecting = func(provider string, at *openstack.Endpoint) {
		if connecting(provider, at); provider == "nowhere" {
			at.Password = "none yet"
		}
	}
	second := strings.Index(twoClouds, `provider "lab" "two"`)
	l.change(`provider "lab" "two"`, strings.Replace(twoClouds[second:], `"two"`, `"nowhere"`, 1)+`provider "lab" "two"`)
	seen, notes := l.head.WithoutUnlisted(l.base, l.seen)
	if _, has := seen.Providers["nowhere"]; has || len(notes) != 1 || notes[0].Address != "provider.nowhere" {
		t.Errorf("notes: %v", notes)
	}
	if _, has := l.seen.Providers["nowhere"]; !has {
		t.Error("the observed state of the caller has changed")
	}
	l.seen = seen
	if e := l.effect(); len(e.Deferred) > 0 || len(e.Dropped)+len(e.Altered) > 0 {
		t.Errorf("effect: %s", e)
	}
}
