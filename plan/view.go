package plan

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// view returns the observed state of the provider. looked is false if it did not respond, was not queried, or is
// frozen.
func (w *world) view(provider string) (view *ProviderView, looked bool) {
	if view, looked = w.views[provider]; looked {
		return view, true
	}
	return &ProviderView{}, false
}

// reachable reports whether the provider may have steps: it responded, or was deliberately not queried.
func (w *world) reachable(provider string) bool {
	if _, looked := w.view(provider); looked {
		return true
	}
	if w.isForeign(provider) {
		return false
	}
	_, asked := w.seen.Providers[provider]
	return !asked && !w.seen.Frozen[provider]
}

func (w *world) source(provider string) resources.Source {
	if p := w.providers[provider]; p != nil {
		return p.Source
	}
	return resources.Source{}
}

// imageKind returns the block type of an image. Its builds keep the type after the block is removed.
func (w *world) imageKind(name string) resources.ImageKind {
	if img := w.images[name]; img != nil {
		return img.Kind
	}
	if builds := w.builds[name]; len(builds) > 0 {
		return builds[0].Kind
	}
	return ""
}

// busy reports whether a running step or another process works on the record.
func (w *world) busy(key resources.Key) bool {
	return key.Kind != "" && (w.seen.Busy[key] || w.seen.ForeignClaims[key])
}

// because returns the reason, or ReasonDestroy if everything is to be deleted.
func (w *world) because(r Reason) Reason {
	if w.opt.Destroy {
		return ReasonDestroy
	}
	return r
}

// estimate returns the median duration of the newest runs of a subject, in seconds; 0 without a history.
func (w *world) estimate(subject string) float64 {
	i, found := slices.BinarySearchFunc(w.seen.Records.Histories, subject,
		func(h *resources.History, s string) int { return strings.Compare(h.Subject, s) })
	if !found || len(w.seen.Records.Histories[i].Seconds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(w.seen.Records.Histories[i].Seconds))
	return sorted[len(sorted)/2]
}
