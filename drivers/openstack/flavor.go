package openstack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
)

func chooseFlavor(list []flavor, name string, minRAM int64) (flavor, bool) {
	if minRAM == 0 {
		for _, match := range []func(flavor) bool{
			func(f flavor) bool { return f.Name == name },
			func(f flavor) bool { return f.ID == name },
		} {
			if i := slices.IndexFunc(list, match); i >= 0 {
				return list[i], true
			}
		}
		return flavor{}, false
	}
	var fit []flavor
	for _, f := range list {
		if f.RAM >= minRAM && strings.Contains(f.Name, name) {
			fit = append(fit, f)
		}
	}
	if len(fit) == 0 {
		return flavor{}, false
	}
	return slices.MinFunc(fit, func(a, b flavor) int {
		return cmp.Or(cmp.Compare(a.RAM, b.RAM), strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	}), true
}

// noFlavor returns why no flavor has enough RAM.
func noFlavor(name string, list []flavor) string {
	var largest flavor
	for _, f := range list {
		if strings.Contains(f.Name, name) && f.RAM > largest.RAM {
			largest = f
		}
	}
	which := "no flavor"
	if name != "" {
		which = fmt.Sprintf("no flavor with %q in its name", name)
	}
	if largest.Name == "" {
		return which + " exists; there are " + strings.Join(flavorNames(list), ", ")
	}
	return fmt.Sprintf("%s has enough RAM; the largest is %s with %d MiB", which, largest.Name, largest.RAM)
}

func flavorByID(list []flavor, id string) (flavor, bool) {
	if i := slices.IndexFunc(list, func(f flavor) bool { return f.ID == id }); i >= 0 && id != "" {
		return list[i], true
	}
	return flavor{}, false
}

func flavorNames(list []flavor) []string {
	return namesOf(list, func(f flavor) string { return f.Name })
}

func networkNames(list []network) []string {
	return namesOf(list, func(n network) string { return n.Name })
}

func namesOf[T any](list []T, name func(T) string) []string {
	return slices.Compact(slices.Sorted(slices.Values(drivers.NamesOf(list, name))))
}
