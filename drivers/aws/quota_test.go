package aws

import (
	"maps"
	"testing"
)

func TestVolumesUseTheQuotasOfTheirType(t *testing.T) {
	for text, want := range map[string]map[string]int64{
		"gp3 20 4000":  {"L-7A658B76": 20},
		"io1 100 5000": {"L-FD252861": 100, "L-B3A130E6": 5000},
		"io2 0 5000":   {"L-8D977E7E": 5000},
		"gp3 0 0":      {},
		"other 20 1":   {},
		"":             {},
		"gp3":          {},
	} {
		if got := parseRootDisk(text).amounts().Other; !maps.Equal(got, want) {
			t.Errorf("%q uses %v, want %v", text, got, want)
		}
	}
	if d := (rootDisk{"io2", 20, 4000}); parseRootDisk(d.String()) != d {
		t.Errorf("%v is read as %v", d, parseRootDisk(d.String()))
	}
}
