package bolt_test

import (
	"os"
	"testing"
	"time"
	"fmt"
	"sort"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/bolt"
)

func TestZZ(t *testing.T) {
	if os.Getenv("ZZ") == "" { return }
	path := os.Getenv("ZZ")
	if _, err := os.Stat(path); err != nil {
		b := &testing.B{}
		_ = b
	}
	var d []time.Duration
	for range 60 {
		t0 := time.Now()
		s, _ := bolt.Open(bolt.Options{Path: path, ReadOnly: true})
		e, err := s.List(t.Context(), resources.KindNode)
		if err != nil || len(e) < 6000 { t.Fatal(err, len(e)) }
		d = append(d, time.Since(t0))
		s.Close()
	}
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	fmt.Println("first", d[0], "median", d[30], "p90", d[54])
}
