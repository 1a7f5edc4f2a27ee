package drivers

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/resources"
)

func TestTypesWithoutCapacityAreTriedLastForSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Shortages
		lacking := map[string]error{"a": ErrCapacity}
		create := func(scope string, want ...string) error {
			t.Helper()
			var tried []string
			_, err := CreateFirst(&s, scope, []string{"a", "b"}, strings.Clone, func(name string) (resources.Instance, error) {
				tried = append(tried, name)
				return resources.Instance{Flavor: name}, lacking[name]
			})
			if !slices.Equal(tried, want) {
				t.Errorf("tried %v, want %v", tried, want)
			}
			return err
		}
		_ = create("one", "a", "b")
		_ = create("one", "b")
		_ = create("two", "a", "b") // another zone, or another market
		time.Sleep(ShortageTime)
		_ = create("one", "a", "b")

		lacking["b"] = ErrQuota
		if err := create("one", "b", "a"); !errors.Is(err, ErrCapacity) {
			t.Errorf("without capacity and quota: %v", err)
		}
		delete(lacking, "a")
		_ = create("one", "b", "a")
		_ = create("one", "a") // has capacity again
		lacking["a"] = ErrRejected
		if err := create("one", "a"); !errors.Is(err, ErrRejected) {
			t.Errorf("rejected: %v", err)
		}
		lacking["a"] = ErrQuota
		if err := create("one", "a", "b"); !errors.Is(err, ErrQuota) {
			t.Errorf("without quota: %v", err)
		}
	})
}
