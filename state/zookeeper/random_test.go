package zookeeper

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// These generators draw records as npctl may have them: empty lists are nil, and values that encoding rounds are drawn
// rounded.

func drawTime(r *rapid.T, name string) time.Time {
	if rapid.IntRange(0, 5).Draw(r, name+" unset") == 0 {
		return time.Time{}
	}
	return time.Unix(rapid.Int64Range(0, 4e9).Draw(r, name), rapid.Int64Range(0, 999_999_999).Draw(r, name+" nanos")).UTC()
}

func drawText(r *rapid.T, name string) string {
	return rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"null", "büro <&>\u2028", `{"a":1}`, "0"})).Draw(r, name)
}

func drawTexts(r *rapid.T, name string) []string {
	list := rapid.SliceOfN(rapid.StringN(1, 20, 80), 0, 3).Draw(r, name)
	if len(list) == 0 {
		return nil
	}
	return list
}

func drawMap(r *rapid.T, name string) map[string]string {
	m := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(r, name)
	if len(m) == 0 {
		return nil
	}
	return m
}

func drawLogin(r *rapid.T) resources.Login {
	return resources.Login{Username: drawText(r, "username"), PythonPath: rapid.SampledFrom([]string{"", "auto", "/usr/bin/python3"}).Draw(r, "python"),
		ShellType: drawText(r, "shell"), ConnectionType: rapid.SampledFrom([]string{"", "ssh", "winrm"}).Draw(r, "connection"),
		ConnectionPort: rapid.SampledFrom([]int64{0, 22, 5986}).Draw(r, "port")}
}

func drawState(r *rapid.T, states ...resources.State) resources.State {
	return rapid.SampledFrom(states).Draw(r, "state")
}

func drawNode(r *rapid.T) *resources.Node {
	amount := rapid.Int64Range(0, 1<<40)
	n := &resources.Node{ID: "0000000042", State: drawState(r, "init", "building", "ready", "in-use", "used", "hold", "failed", "aborted", "deleting", "testing"),
		StateTime: drawTime(r, "state time"), Created: drawTime(r, "created"), Provider: drawText(r, "provider"), Pool: drawText(r, "pool"),
		Labels: drawTexts(r, "labels"), Hash: resources.Hash(drawText(r, "hash")), ExternalID: drawText(r, "external"),
		ImageID: drawText(r, "image id"), Attempt: amount.Draw(r, "attempt"),
		Addresses: resources.Addresses{Interface: drawText(r, "interface"), PublicIPv4: drawText(r, "4"), PrivateIPv4: drawText(r, "p4"),
			PublicIPv6: drawText(r, "6")},
		Zone: drawText(r, "zone"), Cloud: drawText(r, "cloud"), Region: drawText(r, "region"), HostID: drawText(r, "host id"),
		Hostname: drawText(r, "hostname"), Login: drawLogin(r), HostKeys: drawTexts(r, "host keys"),
		Resources: resources.ResourceAmounts{Instances: amount.Draw(r, "instances"), Cores: amount.Draw(r, "cores"), RAM: amount.Draw(r, "ram"),
			Volumes: amount.Draw(r, "volumes"), VolumeGB: amount.Draw(r, "volume-gb"), Addresses: amount.Draw(r, "addresses")},
		Attributes: drawMap(r, "attributes"), Static: rapid.Bool().Draw(r, "static"), Slot: rapid.Int64Range(0, 5).Draw(r, "slot"),
		Comment: drawText(r, "comment"), Seconds: float64(amount.Draw(r, "seconds")) / 8, Error: drawText(r, "error"),
		Request: drawText(r, "request"), Tenant: drawText(r, "tenant"), Requestor: drawText(r, "requestor"), VerifiedAt: drawTime(r, "checked"),
		Phases: resources.Phases{Create: 1.5, Keyscan: float64(amount.Draw(r, "keyscan"))}}
	n.Image = rapid.SampledFrom([]string{"", "diskimage.noble", "zuul_image.noble", "cloud_image.noble"}).Draw(r, "image")
	n.Upload = rapid.SampledFrom([]string{"", "0000000007", "noble/" + buildHex + "/cloud/0000000001"}).Draw(r, "upload")
	if rapid.Bool().Draw(r, "leased") {
		n.Lease = &resources.Lease{Holder: drawText(r, "holder"), Until: drawTime(r, "until"), Seconds: 60}
	}
	if n.State == resources.StateHold && !n.StateTime.IsZero() && rapid.Bool().Draw(r, "hold ends") {
		n.HoldUntil = n.StateTime.Add(time.Duration(rapid.Int64Range(1, maxHold).Draw(r, "hold")) * time.Second)
	}
	return n
}

func drawRequest(r *rapid.T) *resources.Request {
	q := &resources.Request{ID: fmt.Sprintf("%03d-0000000311", rapid.IntRange(0, 999).Draw(r, "priority")),
		State: drawState(r, "requested", "pending", "fulfilled", "failed"), StateTime: drawTime(r, "state time"), Created: drawTime(r, "created"),
		Labels: append(drawTexts(r, "labels"), "debian"), RelativePriority: rapid.Int64Range(-1000, 1000).Draw(r, "relative"), Requestor: drawText(r, "who"),
		Tenant: drawText(r, "tenant"), EventID: drawText(r, "event"), Provider: drawText(r, "provider"), Deadline: drawTime(r, "deadline"),
		Fresh: rapid.Bool().Draw(r, "fresh"), Nodes: drawTexts(r, "nodes"), Error: drawText(r, "error"), PendingSince: drawTime(r, "taken"), Ready: drawTime(r, "ready"),
		Placement: resources.Placement{Provider: drawText(r, "place"), Zone: drawText(r, "zone")}}
	_, _ = fmt.Sscanf(q.ID, "%03d", &q.Priority)
	if data := drawJSON(r, "data", 2); data != "null" {
		q.Data = json.RawMessage(data)
	}
	for i := range rapid.IntRange(0, 3).Draw(r, "declines") {
		d := resources.Decline{Provider: drawText(r, "decline"), Pool: "main", Reason: rapid.StringN(1, 9, 40).Draw(r, "reason")}
		switch rapid.IntRange(0, 2).Draw(r, "how") {
		case 0:
			d.PoolID = fmt.Sprintf("launch1-PoolWorker.%d", i)
		case 1:
			d.PoolID, d.Zone = fmt.Sprintf("launch2-PoolWorker.%d", i), "az1"
		}
		q.Declined = append(q.Declined, d)
	}
	return q
}

func drawBuild(r *rapid.T) *resources.Build {
	b := &resources.Build{ID: buildHex, Image: "noble", Kind: rapid.SampledFrom([]resources.ImageKind{resources.DiskImage, resources.ZuulImage}).Draw(r, "kind"),
		State: drawState(r, "building", "ready", "deleting", "failed"), StateTime: drawTime(r, "state time"), Created: drawTime(r, "created"),
		Builder: drawText(r, "builder"), Host: drawText(r, "host"), HostID: drawText(r, "host id"), Hash: resources.Hash(drawText(r, "hash")),
		Login: drawLogin(r), Seconds: 2.25, Error: drawText(r, "error"), Extra: drawMap(r, "extra"), Version: drawText(r, "version"),
		VersionTime: drawTime(r, "dated"), Imported: rapid.Bool().Draw(r, "imported"), Remote: rapid.Bool().Draw(r, "remote")}
	for _, format := range rapid.SliceOfN(rapid.SampledFrom([]string{"qcow2", "raw", "vhd", ""}), 0, 3).Draw(r, "formats") {
		b.Files = append(b.Files, resources.ImageFile{Format: format, Name: drawText(r, "file"), Size: 1 << 40, SHA256: drawText(r, "sum")})
	}
	return b
}

func drawUpload(r *rapid.T) *resources.Upload {
	return &resources.Upload{ID: rapid.SampledFrom([]string{"0000000007", "noble/" + buildHex + "/cloud/0000000001"}).Draw(r, "id"),
		Image: "noble", Build: buildHex, Provider: "cloud", State: drawState(r, "uploading", "ready", "deleting", "failed"),
		StateTime: drawTime(r, "state time"), Created: drawTime(r, "created"), Format: drawText(r, "format"), ExternalID: drawText(r, "external"),
		Name: drawText(r, "name"), Size: rapid.Int64Min(0).Draw(r, "size"), Hash: resources.Hash(drawText(r, "hash")), Login: drawLogin(r),
		Seconds: 2.25, Error: drawText(r, "error"), Unmarked: rapid.Bool().Draw(r, "unmarked"), Importing: rapid.Bool().Draw(r, "importing")}
}

// drawRecord draws a record with the path of its znode.
func drawRecord(r *rapid.T) (znodeRef, resources.Record) {
	uploads := uploadsDir("noble", buildHex, "cloud")
	switch rapid.SampledFrom([]resources.Kind{resources.KindRequest, resources.KindNode, resources.KindBuild, resources.KindUpload}).Draw(r, "kind") {
	case resources.KindRequest:
		q := drawRequest(r)
		return parsePath(requestsDir + "/" + q.ID), q
	case resources.KindNode:
		n := drawNode(r)
		return parsePath(nodesDir + "/" + n.ID), n
	case resources.KindBuild:
		return parsePath(buildPath("noble", buildHex)), drawBuild(r)
	default:
		return parsePath(uploads + "/0000000001"), drawUpload(r)
	}
}

// drawJSON draws a value as users and programs write it: numbers that no Go type can represent, escapes, and spaces
// anywhere.
func drawJSON(r *rapid.T, name string, depth int) string {
	space := rapid.SampledFrom([]string{"", "", " ", "\n  "}).Draw(r, "space")
	leaf := rapid.SampledFrom([]string{"null", "true", "0", "-0.0", "1e-400", "340282366920938463463374607431768211455", "1.10", "12345678901234567890123",
		`""`, `"\u00e9\ud83d\ude00"`, `"a\/b"`, `"\u003c<"`, `"x"`, "[]", "{}", `{"a" : 1, "a": 2}`})
	if depth == 0 {
		return leaf.Draw(r, name)
	}
	switch rapid.IntRange(0, 2).Draw(r, name+" is") {
	case 0:
		return leaf.Draw(r, name)
	case 1:
		var parts []string
		for range rapid.IntRange(0, 3).Draw(r, "length") {
			parts = append(parts, space+drawJSON(r, name, depth-1))
		}
		return "[" + strings.Join(parts, ",") + space + "]"
	default:
		var parts []string
		for i := range rapid.IntRange(0, 3).Draw(r, "length") {
			parts = append(parts, fmt.Sprintf(`%s"key %d"%s:%s`, space, i, space, drawJSON(r, name, depth-1)))
		}
		return "{" + strings.Join(parts, ",") + space + "}"
	}
}
