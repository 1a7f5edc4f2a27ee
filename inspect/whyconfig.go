package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// label explains the number of nodes of a label.
func (e *explanation) label(name string) error {
	names := KnownLabels(e.Desired)
	if !slices.Contains(names, name) {
		return &NotFoundError{Kind: "label", Name: name, Known: names}
	}
	l := e.Label(name)
	hasLabel := func(labels string) bool { return slices.Contains(strings.Split(labels, ","), name) }
	e.steps(func(s *plan.Step) bool { return s.Thing == plan.ThingNode && hasLabel(s.Label) })
	e.fact("nodes", CountsText(l.Nodes))
	e.fact("min_ready", fmt.Sprint(l.MinReady))
	e.fact("free", fmt.Sprint(l.Free))
	if l.Waiting > 0 {
		e.wait("requests", "%s for nodes of it", text.Count(l.Waiting, "request waits", "requests wait"))
	}
	for _, o := range l.Offers {
		e.offered(o)
	}
	e.notes("note", func(at plan.Address) bool {
		return at == plan.Address("label."+name) || strings.HasSuffix(string(at), ".label."+name)
	})
	for _, r := range e.Observed.Records.Requests {
		if r.IsOpen() && slices.Contains(r.Labels, name) && len(e.Related) < 20 {
			e.relate("request/" + r.ID)
		}
	}
	free := text.Count(l.Free, "node is", "nodes are") + " ready and unassigned"
	switch {
	case len(l.Offers) == 0:
		e.State, e.Summary = "not offered", "No pool offers it, so no nodes of it can exist."
	case int64(l.Free) >= l.MinReady && l.Waiting == 0:
		e.State, e.Summary = "ok", fmt.Sprintf("%s, and min_ready is %d.", free, l.MinReady)
	case len(e.Running) > 0:
		e.State, e.Summary = "launching", fmt.Sprintf("%s; %s running for more.", free, text.Count(len(e.Running), "step is", "steps are"))
	default:
		e.State = "requests wait"
		if short := l.MinReady - int64(l.Free); short > 0 {
			e.State = fmt.Sprintf("short of %s", text.Count(int(short), "node", "nodes"))
		}
		e.Summary = fmt.Sprintf("%s, min_ready is %d, and %s.", free, l.MinReady, text.Count(l.Waiting, "request waits", "requests wait"))
	}
	return nil
}

// offered adds a pool that offers the label.
func (e *explanation) offered(o wire.Offer) {
	at := o.Provider + "/" + o.Pool
	e.relate("provider/" + o.Provider)
	e.providerProblems(o.Provider)
	what := text.Count(o.Slots, "slot", "slots") + " of static nodes"
	if !o.Static {
		what = strings.TrimSpace(o.Image + " " + o.Flavor)
		e.relate("image/" + uploadedImage(o))
	}
	e.fact("offered by "+at, what)
	for _, p := range o.Problems {
		e.wait("problem", "%s: %s", at, p)
	}
}

// uploadedImage returns the image that an offer boots from, or "" if npctl does not upload it.
func uploadedImage(o wire.Offer) string {
	kind, image, _ := strings.Cut(o.Image, ".")
	if kind == string(resources.CloudImage) {
		return ""
	}
	return image
}

// CountsText formats numbers by state, such as "2 ready, 1 in-use".
func CountsText[T ~string](counts map[T]int) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// image explains the state of an image.
func (e *explanation) image(name string) error {
	i := slices.IndexFunc(e.Desired.Images, func(img resources.Image) bool { return img.Name == name })
	builds := BuildsOf(e.Observed.Records, name)
	if i < 0 && len(builds) == 0 {
		var names []string
		for _, img := range e.Desired.Images {
			names = append(names, img.Name)
		}
		return &NotFoundError{Kind: "image", Name: name, Known: names}
	}
	e.steps(func(s *plan.Step) bool { return s.Image == name && s.Thing != plan.ThingNode })
	states := map[resources.State]int{}
	for _, b := range builds {
		states[b.State]++
	}
	present := slices.Collect(maps.Keys(states))
	e.fact("builds", CountsText(states))
	if len(builds) > 0 {
		e.fact("newest build", fmt.Sprintf("%s, %s for %s", builds[0].ID[:min(8, len(builds[0].ID))], builds[0].State, e.since(builds[0].StateTime)))
	}
	for _, u := range e.Observed.Records.Uploads {
		if u.Image == name {
			e.fact("upload to "+u.Provider, fmt.Sprintf("%s for %s, of build %s", u.State, e.since(u.StateTime), u.Build[:min(8, len(u.Build))]))
			e.relate("provider/" + u.Provider)
			present = append(present, u.State)
		}
	}
	holder := e.lockHolder(present...)
	paused, failure := e.imageRecord(name)
	suffix := "." + name
	e.notes("note", func(at plan.Address) bool {
		return strings.HasSuffix(string(at), suffix) && !strings.Contains(string(at), ".label.") && !strings.Contains(string(at), ".node.")
	})
	e.usedBy(name)
	switch {
	case i < 0:
		e.State, e.Summary = "not configured", "It is no longer configured; npctl deletes it as soon as nothing uses it."
	case len(e.Running) > 0:
		e.State, e.Summary = "running", fmt.Sprintf("%s is running: %s.", e.Running[0].Action, e.Running[0].Text)
	case holder != "":
		e.State, e.Summary = "running", holder+" is running."
	case paused || e.Desired.Images[i].Pause:
		e.State, e.Summary = "paused", "It is paused, so it is not built."
	case len(e.Planned) > 0:
		e.State, e.Summary = "planned", fmt.Sprintf("%s is planned: %s.", e.Planned[0].Action, e.Planned[0].Text)
	case failure != nil:
		e.State, e.Summary = "build failing", fmt.Sprintf("Its build failed; npctl repeats it after %s. Its log: npctl image log %s.",
			plan.NextBuildAttempt(failure).UTC().Format(time.RFC3339), name)
	default:
		e.State, e.Summary = "ok", "Nothing is planned."
	}
	return nil
}

// imageRecord adds the failures and the pause from the record of an image, and returns whether it is paused and the failure
// of its newest build.
func (e *explanation) imageRecord(name string) (paused bool, failure *resources.Failure) {
	for _, r := range e.Observed.Records.Images {
		if r.Name != name {
			continue
		}
		if r.Paused {
			paused = true
			e.wait("paused", "%s", strings.TrimSuffix("it is paused by command: "+r.PauseReason, ": "))
		}
		failure = r.Failure
		e.Waits = append(e.Waits, imageFailures(r, e.in.Now)...)
	}
	return paused, failure
}

// imageFailures describes the failures of an image since its last successes: of its builds, then of its uploads.
func imageFailures(r *resources.ImageRecord, now time.Time) (failing []wire.Wait) {
	add := func(code, what string, f *resources.Failure) {
		if f != nil {
			failing = append(failing, wire.Wait{Code: code, Text: fmt.Sprintf("its %s failed %s, last %s ago: %s",
				what, text.Count(f.Count, "time", "times"), rounded(max(0, now.Sub(f.Time))), plan.FirstLine(f.Error))})
		}
	}
	add("build-failed", "build", r.Failure)
	for _, provider := range slices.Sorted(maps.Keys(r.Uploads)) {
		add("upload-failed", "upload to "+provider, r.Uploads[provider])
	}
	return failing
}

// usedBy adds the labels that boot from an image, with their providers.
func (e *explanation) usedBy(image string) {
	for _, p := range e.Desired.Providers {
		for _, pool := range p.Pools {
			for _, o := range pool.Offers {
				if o.Image.Name == image && o.Image.IsUploaded() {
					e.relate("label/"+o.Label, "provider/"+p.Name)
				}
			}
		}
	}
}

// provider explains the state of a provider.
func (e *explanation) provider(name string) error {
	var names []string
	for _, p := range e.Desired.Providers {
		names = append(names, p.Name)
	}
	for _, p := range e.Observed.Records.Providers {
		names = append(names, p.Name)
	}
	if !slices.Contains(names, name) {
		return &NotFoundError{Kind: "provider", Name: name, Known: names}
	}
	e.steps(func(s *plan.Step) bool { return s.Provider == name })
	use, states := e.use(func(n *resources.Node) bool { return n.Provider == name })
	e.fact("nodes", CountsText(states))
	view := e.Observed.Providers[name]
	if !view.ListedAt.IsZero() {
		e.fact("last listed", e.since(view.ListedAt)+" ago")
		e.fact("quota", quotaText(e.Observed.Quota(name)))
	}
	e.fact("used by npctl", fmt.Sprintf("%s, %s, %d MiB", text.Count(use.Instances, "instance", "instances"), text.Count(use.Cores, "core", "cores"), use.RAM))
	e.notes("note", func(at plan.Address) bool {
		return at == plan.ProviderAddress(name) || strings.HasPrefix(string(at), "provider."+name+".")
	})
	switch {
	case e.providerProblems(name) && e.Observed.Frozen[name]:
		e.State, e.Summary = "frozen", "It is frozen."
	case view.Err != "":
		e.State, e.Summary = "not listed", "It could not be listed, so nothing is planned for it: "+strings.TrimSuffix(view.Err, ".")+"."
	default:
		e.State, e.Summary = "ok", fmt.Sprintf("It responds; %s running, and %d more planned.", text.Count(len(e.Running), "step is", "steps are"), len(e.Planned))
	}
	return nil
}

func quotaText(q resources.Quota) string {
	of := func(name string, used, limit int64) string {
		if limit == resources.Unlimited {
			return fmt.Sprintf("%d %s", used, name)
		}
		return fmt.Sprintf("%d of %d %s", used, limit, name)
	}
	return strings.Join([]string{of("instances", q.Used.Instances, q.Limit.Instances), of("cores", q.Used.Cores, q.Limit.Cores),
		of("MiB", q.Used.RAM, q.Limit.RAM)}, ", ")
}
