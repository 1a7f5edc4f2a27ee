package statsd

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// metric is a line of the protocol without its prefix.
type metric struct {
	name  string
	value int64
	kind  string // g, c or ms
}

// nodeStates are the states that Nodepool counts, including those without a node.
var nodeStates = []string{"aborted", "building", "deleted", "deleting", "failed", "hold", "in-use", "init", "ready", "testing", "used"}

// States of builds and uploads of an image on a builder, in Nodepool's numbers.
const (
	idle      = 0
	building  = 1
	uploading = 2
	paused    = 3
)

// gauges returns the gauges of a pass.
func gauges(p *watch.Pass, running []plan.Step, host string) []metric {
	g := tally{}
	served := (&inspect.Fleet{Desired: p.Desired, Observed: p.Observed}).ServingPools()
	g.nodes(p, served)
	g.requests(p, served)
	g.limits(p)
	g.images(p, running, host)
	return g.sorted()
}

// tally maps names to values.
type tally map[string]int64

func (g tally) sorted() []metric {
	all := make([]metric, 0, len(g))
	for name, value := range g {
		all = append(all, metric{name, value, "g"})
	}
	slices.SortFunc(all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	return all
}

func (g tally) nodes(p *watch.Pass, served []inspect.ServingPool) {
	for _, state := range nodeStates {
		g["nodes."+state] = 0
		for _, s := range served {
			g["provider."+s.Provider+".nodes."+state] = 0
			for _, label := range s.Labels {
				g["label."+label+".nodes."+state] = 0
			}
		}
	}
	for _, n := range p.Observed.Records.Nodes {
		g["nodes."+string(n.State)]++
		g["provider."+n.Provider+".nodes."+string(n.State)]++
		for _, label := range n.Labels {
			g["label."+label+".nodes."+string(n.State)]++
		}
	}
}

// requests counts the open requests that each pool could serve.
func (g tally) requests(p *watch.Pass, served []inspect.ServingPool) {
	for _, s := range served {
		name := "provider." + s.Provider + ".pool." + s.Name + ".addressable_requests"
		g[name] = int64(s.CountAddressable(p.Observed.Records.Requests))
	}
}

func (g tally) limits(p *watch.Pass) {
	for i := range p.Desired.Providers {
		provider := &p.Desired.Providers[i]
		sum := int64(0)
		for j := range provider.Pools {
			if most := provider.Pools[j].MaxServers; most != nil {
				sum += *most
			}
		}
		g["provider."+provider.Name+".max_servers"] = sum
	}
	for _, t := range p.Desired.Settings.TenantLimits {
		for name, limit := range map[string]*int64{"instances": t.MaxServers, "cores": t.MaxCores, "ram": t.MaxRAM, "volumes": t.MaxVolumes, "volume-gb": t.MaxVolumeGB} {
			if limit != nil {
				g["tenant_limits."+segment(t.Tenant)+"."+name] = *limit
			}
		}
	}
}

func (g tally) images(p *watch.Pass, running []plan.Step, host string) {
	requested := int64(0)
	newest := inspect.NewestReadyBuilds(p.Observed.Records)
	for i := range p.Desired.Images {
		img := &p.Desired.Images[i]
		isRequested := int64(0)
		if inspect.HasBuildRequest(&p.Observed, running, img.Name) {
			isRequested = 1
		}
		requested += isRequested
		g["image."+img.Name+".image_build_requests"] = isRequested
		here := "builder." + host + ".image." + img.Name + "."
		isPaused := img.Pause || inspect.ImageRecord(p.Observed.Records, img.Name).Paused
		g[here+"build.state"] = status(inspect.Runs(running, plan.ActionBuild, img.Name, ""), building, isPaused)
		for _, user := range inspect.ImageUsers(p.Desired, img) {
			g[here+"provider."+user.Name+".upload.state"] = status(inspect.Runs(running, plan.ActionUpload, img.Name, user.Name), uploading, inspect.UploadsPaused(user, img))
		}
		if b := newest[img.Name]; b != nil {
			for _, f := range b.Files {
				g["dib_image_build."+img.Name+"."+f.Format+".size"] = f.Size
			}
			g["dib_image_build."+img.Name+".status.last_build"] = b.StateTime.Unix()
		}
	}
	g["image_build_requests"] = requested
}

func status(runs bool, busy int64, isPaused bool) int64 {
	switch {
	case runs:
		return busy
	case isPaused:
		return paused
	default:
		return idle
	}
}

// launch returns the metrics of a launch attempt.
func launch(provider, zone, requestor, result string, took time.Duration) (all []metric) {
	names := []string{"launch.provider." + provider + "." + result, "launch." + result}
	if zone != "" {
		names = append(names, "launch.provider."+provider+"."+zone+"."+result)
	}
	if requestor != "" {
		names = append(names, "launch.requestor."+segment(requestor)+"."+result)
	}
	for _, name := range names {
		if took > 0 {
			all = append(all, metric{name, took.Milliseconds(), "ms"})
		}
		all = append(all, metric{name, 1, "c"})
	}
	return all
}

// launchError returns Nodepool's word for the error of a launch attempt; kind is one of metrics.Reasons.
func launchError(err error, kind string) string {
	switch {
	case errors.Is(err, reconcile.ErrBootTimeout):
		return "error.keyscan"
	case kind == "quota", kind == "capacity":
		return "error." + kind
	case kind == "timeout":
		return "error.servercreatetimeout"
	default:
		return "error.unknown"
	}
}

// imageStep returns the metrics of a build or upload that has ended.
func imageStep(e *reconcile.Event) []metric {
	s := &e.Step
	switch {
	case s.Kind == plan.KindBuild:
		name := "dib_image_build." + s.Image + ".status."
		return []metric{{name + "duration", e.Took.Milliseconds(), "ms"}, {name + "rc", int64(e.ExitCode()), "g"}}
	case s.Kind == plan.KindUpload && e.Err == nil:
		name := "image_update." + s.Image + "." + s.Provider
		return []metric{{name, e.Took.Milliseconds(), "ms"}, {name, 1, "c"}}
	default:
		return nil
	}
}

// leakNames are Nodepool's names of leaked objects by driver and type. Those of the driver "" apply to all drivers.
var leakNames = map[string]map[string]string{
	"":              {serverType: "instances", resources.LeftoverFloatingIP: "floatingips"},
	"aws":           {imageType: "amis"},
	"azure":         {serverType: "INSTANCEs", resources.LeftoverPort: "nics", resources.LeftoverFloatingIP: "pips", resources.LeftoverVolume: "disks"},
	"kubernetes":    {serverType: "nodes"},
	"openshift":     {serverType: "nodes"},
	"openshiftpods": {serverType: "nodes"},
}

// Types of leaks that are no leftovers.
const (
	serverType = "server"
	imageType  = "image"
)

// leaked returns the metric of a deleted leak in a provider of a driver. Leaked image files, which have no provider, have no
// metric.
func leaked(s *plan.Step, driver string) []metric {
	if s.Provider == "" {
		return nil
	}
	name := cmp.Or(leakNames[driver][s.Type], leakNames[""][s.Type], s.Type+"s")
	return []metric{{"provider." + s.Provider + ".leaked." + name, 1, "c"}}
}

// segment returns text as one part of a name.
func segment(s string) string { return strings.ReplaceAll(s, ".", "_") }

// line returns the line of a metric, with characters of the protocol replaced in its name.
func (m metric) line(prefix string) string {
	name := strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(":|@#", r) {
			return '_'
		}
		return r
	}, prefix+m.name)
	return name + ":" + strconv.FormatInt(m.value, 10) + "|" + m.kind
}
