package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// livingKinds lists the kinds of records that describe objects; the others are bookkeeping.
var livingKinds = []resources.Kind{resources.KindBuild, resources.KindUpload, resources.KindNode}

// recordLine is a record in JSON output.
type recordLine struct {
	Address string           `json:"address"`
	Kind    resources.Kind   `json:"kind"`
	ID      string           `json:"id"`
	Record  resources.Record `json:"record"`
}

func recordLines(entries []state.Entry) []recordLine {
	lines := make([]recordLine, len(entries))
	for i, e := range entries {
		key := e.Record.Key()
		lines[i] = recordLine{recordAddress(e.Record), key.Kind, key.ID, e.Record}
	}
	return lines
}

// recordAddress returns the address of one record. It is inside the address that plans use for the object, so that an
// address of -target also matches records.
func recordAddress(r resources.Record) string {
	switch r := r.(type) {
	case *resources.Build:
		return string(r.Kind) + "." + r.Image + ".build." + r.ID
	case *resources.Upload:
		return "provider." + r.Provider + ".image." + r.Image + ".upload." + r.ID
	default:
		key := r.Key()
		return string(key.Kind) + "." + key.ID
	}
}

// recordScopes returns the addresses that select a record.
func recordScopes(r resources.Record) []string {
	scopes := []string{recordAddress(r), r.Key().String()}
	switch r := r.(type) {
	case *resources.Upload:
		scopes = append(scopes, "diskimage."+r.Image, "zuul_image."+r.Image, "upload."+r.ID)
	case *resources.Build:
		scopes = append(scopes, "build."+r.ID)
	case *resources.Node:
		scopes = append(scopes, "provider."+r.Provider)
		pool := "provider." + r.Provider + ".pool." + r.Pool
		for _, label := range r.Labels {
			scopes = append(scopes, pool+".label."+label, "label."+label)
		}
		if r.Static {
			scopes = append(scopes, pool+".node."+r.Hostname, fmt.Sprintf("%s.node.%s[%d]", pool, r.Hostname, r.Slot))
		}
	}
	return scopes
}

// choose returns the entries that have an address inside one of those chosen. It returns an error for an address
// without entries.
func choose(entries []state.Entry, chosen []string) ([]state.Entry, error) {
	if len(chosen) == 0 {
		return entries, nil
	}
	found := make([]bool, len(chosen))
	wanted := make([]string, len(chosen))
	for i, c := range chosen {
		wanted[i] = addressOf(c)
	}
	var kept []state.Entry
	for _, e := range entries {
		scopes := recordScopes(e.Record)
		hit := false
		for i, c := range wanted {
			if slices.ContainsFunc(scopes, func(s string) bool { return inside(s, c) }) {
				found[i], hit = true, true
			}
		}
		if hit {
			kept = append(kept, e)
		}
	}
	for i, c := range chosen {
		if !found[i] {
			return nil, notRecorded(entries, c)
		}
	}
	return kept, nil
}

func notRecorded(entries []state.Entry, address string) error {
	err := fmt.Errorf("the state has nothing at %q", address)
	var known []string
	for _, e := range entries {
		known = append(known, recordScopes(e.Record)...)
	}
	return didYouMean(err, address, known, "npctl state list -all shows the addresses")
}

// age returns the approximate time since then.
func age(then, now time.Time) string {
	if then.IsZero() {
		return ""
	}
	switch d := now.Sub(then); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

func words(list []string) string { return strings.Join(list, ",") }
