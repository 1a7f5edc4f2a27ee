package gce

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func TestLabelsKeepOwnershipTags(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringN(1, 10, 15)
		m := resources.OwnerTags{Installation: word.Draw(t, "installation"), Kind: resources.KindNode, ID: word.Draw(t, "id"), Provider: word.Draw(t, "provider"),
			Label: word.Draw(t, "label"), Hash: resources.Hash(word.Draw(t, "hash"))}
		labels, err := ownerLabels(m)
		testutil.Must(t, err)
		for key, value := range labels {
			if !labelKey().MatchString(key) || !labelValue().MatchString(value) {
				t.Errorf("label %s = %q is invalid", key, value)
			}
		}
		if got := marksOf(labels, place{}); got != m {
			t.Errorf("labels decode as %+v, want %+v", got, m)
		}
	})
}

func TestLongNamesAreCut(t *testing.T) {
	labels, err := ownerLabels(resources.OwnerTags{Installation: "i", Kind: resources.KindNode, ID: "1", Label: strings.Repeat("A", 40)})
	testutil.Must(t, err)
	if got := marksOf(labels, place{}); len(labels["npctl_label"]) != 63 || got.Label != strings.Repeat("A", 21) || got.ID != "1" {
		t.Errorf("labels %v decode as %+v", labels, got)
	}
}
