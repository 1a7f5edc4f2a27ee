package nodepoolapi

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// column is a column of a table: its key in JSON, and its title in text.
type column struct{ key, title string }

// table is the content of an endpoint. A value is nil, a bool, a number, a string or a list of strings.
type table struct {
	columns []column
	rows    [][]any
}

// nodeList lists the nodes, or the node with an ID.
func nodeList(w *inspect.Fleet, id string, now time.Time) table {
	t := table{columns: []column{{"id", "ID"}, {"provider", "Provider"}, {"label", "Label"}, {"server_id", "Server ID"},
		{"public_ipv4", "Public IPv4"}, {"ipv6", "IPv6"}, {"state", "State"}, {"age", "Age"}, {"locked", "Locked"}, {"pool", "Pool"},
		{"hostname", "Hostname"}, {"private_ipv4", "Private IPv4"}, {"AZ", "AZ"}, {"username", "Username"},
		{"connection_port", "Port"}, {"launcher", "Launcher"}, {"allocated_to", "Allocated To"}, {"hold_job", "Hold Job"},
		{"comment", "Comment"}, {"user_data", "User Data"}, {"driver_data", "Driver Data"}}}
	for _, n := range w.Observed.Records.Nodes {
		if id == "" || id == n.ID {
			t.rows = append(t.rows, []any{n.ID, orNull(n.Provider), list(n.Labels), orNull(n.ExternalID), orNull(n.Addresses.PublicIPv4),
				orNull(n.Addresses.PublicIPv6), string(n.State), duration(now.Sub(n.StateTime)), locked(w, n), orNull(n.Pool),
				orNull(n.Hostname), orNull(n.Addresses.PrivateIPv4), orNull(n.Zone), orNull(n.Login.Username), port(n),
				launcher(n), orNull(n.Request), orNull(n.HoldJob), orNull(n.Comment), orNull(n.UserData), orNull(n.DriverData)})
		}
	}
	return t
}

// locked returns whether a process or a requestor has the node. A local state has no locks of requestors.
func locked(w *inspect.Fleet, n *resources.Node) string {
	inUse := !w.Observed.Shared && n.State == resources.StateInUse
	if w.Observed.Busy[n.Key()] || w.Observed.ForeignClaims[n.Key()] || inUse {
		return "locked"
	}
	return "unlocked"
}

// port returns the port of the node. Nodepool hides credentials of clusters, which it stores in place of the port.
func port(n *resources.Node) any {
	switch {
	case n.Login.ConnectionPort != 0:
		return n.Login.ConnectionPort
	case slices.Contains([]string{"namespace", "project", "kubectl"}, n.Login.ConnectionType):
		return "redacted"
	default:
		return int64(22)
	}
}

// launcher returns the pool that launched the node. A record names it only if another program launched the node.
func launcher(n *resources.Node) any {
	if n.Static {
		return "static driver"
	}
	return orNull(n.Launcher)
}

// dibImageList lists the builds.
func dibImageList(w *inspect.Fleet) table {
	t := table{columns: []column{{"id", "ID"}, {"image", "Image"}, {"builder", "Builder"}, {"formats", "Formats"}, {"state", "State"}, {"age", "Age"}}}
	for _, ref := range w.Refs() {
		paused := inspect.ImageRecord(w.Observed.Records, ref.Name).Paused
		for _, b := range inspect.BuildsOf(w.Observed.Records, ref.Name) {
			state := string(b.State)
			if paused {
				state = "paused"
			}
			formats := []string{}
			for _, f := range b.Files {
				formats = append(formats, f.Format)
			}
			t.rows = append(t.rows, []any{b.Image + "-" + b.ID, b.Image, orNull(b.Host), formats, state, b.StateTime.Unix()})
		}
	}
	return t
}

// imageList lists the uploads.
func imageList(w *inspect.Fleet) table {
	t := table{columns: []column{{"id", "Build ID"}, {"upload_id", "Upload ID"}, {"provider", "Provider"}, {"image", "Image"},
		{"external_name", "Provider Image Name"}, {"external_id", "Provider Image ID"}, {"state", "State"}, {"age", "Age"}}}
	for _, ref := range w.Refs() {
		for _, u := range inspect.UploadsOf(w.Observed.Records, ref.Name) {
			// in ZooKeeper an ID is image/build/provider/number
			t.rows = append(t.rows, []any{u.Build, path.Base(u.ID), u.Provider, u.Image, orNull(u.Name), orNull(u.ExternalID),
				string(u.State), u.StateTime.Unix()})
		}
	}
	return t
}

// imageStatus lists the images. The store does not return the age of a build request.
func imageStatus(w *inspect.Fleet) table {
	t := table{columns: []column{{"image", "Image"}, {"paused", "Paused"}, {"build_request", "Build Request"}, {"build_request_age", "Build Request Age"}}}
	for _, ref := range w.Refs() {
		var request any
		if slices.Contains(w.Observed.RequestedBuilds, ref.Name) {
			request = "pending"
			if slices.ContainsFunc(inspect.BuildsOf(w.Observed.Records, ref.Name), func(b *resources.Build) bool { return b.State == resources.StateBuilding }) {
				request = "building"
			}
		}
		t.rows = append(t.rows, []any{ref.Name, inspect.ImageRecord(w.Observed.Records, ref.Name).Paused, request, nil})
	}
	return t
}

// requestList lists the requests.
func requestList(w *inspect.Fleet) table {
	t := table{columns: []column{{"id", "Request ID"}, {"relative_priority", "Priority"}, {"state", "State"}, {"requestor", "Requestor"},
		{"node_types", "Node Types"}, {"nodes", "Nodes"}, {"declined_by", "Declined By"}, {"event_id", "Event ID"}}}
	for _, r := range w.Observed.Records.Requests {
		declines := []string{}
		for _, d := range r.Declined {
			if d.PoolID == "" { // a local state has no IDs of pools
				d.PoolID = d.Provider + "-" + d.Pool
			}
			declines = append(declines, d.PoolID)
		}
		t.rows = append(t.rows, []any{r.ID, r.RelativePriority, string(r.State), orNull(r.Requestor), list(r.Labels), list(r.Nodes), declines, orNull(r.EventID)})
	}
	return t
}

// labelList lists the labels that the registered pools of all processes offer.
func labelList(w *inspect.Fleet) table {
	labels := inspect.OfferedLabels(w.Desired)
	if w.Observed.Shared {
		labels = nil
		for i := range w.Observed.RegisteredPools {
			labels = append(labels, w.Observed.RegisteredPools[i].Labels...)
		}
		slices.Sort(labels)
	}
	t := table{columns: []column{{"label", "Label"}}}
	for _, label := range slices.Compact(labels) {
		t.rows = append(t.rows, []any{label})
	}
	return t
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func list(of []string) []string { return append([]string{}, of...) }

// duration formats an age as days, hours, minutes and seconds.
func duration(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d:%02d", s/86400, s/3600%24, s/60%60, s%60)
}

// objects returns the rows as JSON objects.
func (t table) objects() []map[string]any {
	all := make([]map[string]any, 0, len(t.rows))
	for _, row := range t.rows {
		one := map[string]any{}
		for i, c := range t.columns {
			one[c.key] = row[i]
		}
		all = append(all, one)
	}
	return all
}

// text draws the table. With fields it has only the columns with these keys.
func (t table) text(fields []string, now time.Time) string {
	var chosen []int
	for i, c := range t.columns {
		if fields == nil || slices.Contains(fields, c.key) {
			chosen = append(chosen, i)
		}
	}
	lines := [][]string{make([]string, len(chosen))}
	for k, i := range chosen {
		lines[0][k] = t.columns[i].title
	}
	for _, row := range t.rows {
		line := make([]string, len(chosen))
		for k, i := range chosen {
			line[k] = cell(t.columns[i].key, row[i], now)
		}
		lines = append(lines, line)
	}
	return draw(lines)
}

// cell formats a value of a column.
func cell(key string, value any, now time.Time) string {
	switch v := value.(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "True"
		}
		return "False"
	case []string:
		return strings.Join(v, ",")
	case int64:
		if key == "age" || strings.HasSuffix(key, "_age") {
			return duration(now.Sub(time.Unix(v, 0)))
		}
		return fmt.Sprint(v)
	default:
		return fmt.Sprint(v)
	}
}

// draw draws lines of cells with borders; the first line is the header.
func draw(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for k := range line {
			line[k] = text.Line(line[k])
			widths[k] = max(widths[k], runewidth.StringWidth(line[k]))
		}
	}
	var border strings.Builder
	for _, width := range widths {
		border.WriteString("+" + strings.Repeat("-", width+2))
	}
	border.WriteString("+")
	all := []string{border.String()}
	for i, line := range lines {
		var b strings.Builder
		for k, value := range line {
			b.WriteString("| " + runewidth.FillRight(value, widths[k]) + " ")
		}
		all = append(all, b.String()+"|")
		if i == 0 {
			all = append(all, border.String())
		}
	}
	return strings.Join(append(all, border.String()), "\n")
}
