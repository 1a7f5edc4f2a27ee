package statetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/npctl/npctl/resources"
)

var moment = time.Date(2024, 2, 29, 12, 34, 56, 123456789, time.UTC)

// Node returns a node record with realistic values in its fields, without an ID.
func Node(i int) *resources.Node {
	return &resources.Node{
		State: resources.StateReady, StateTime: moment, Created: moment.Add(-90 * time.Second),
		Provider: fmt.Sprintf("cloud-%02d", i%20), Pool: "main", Labels: []string{"debian-small", "debian"},
		Hash:       resources.Hash(fmt.Sprintf("v1:4f1c2b7d9e0a4c6db1a2f3e4d5c6b7a8%08x", i%50)),
		ExternalID: fmt.Sprintf("3f2b1c4d-5e6f-4a7b-8c9d-%012x", i), Image: "diskimage.debian-bookworm",
		ImageID: "0d3f6c1e-9d1c-4f6f-a0d4-2f4ad8d2b0aa", Upload: fmt.Sprintf("%010d", i%40+1), Validates: fmt.Sprintf("%010d", i%40+1), Replaces: fmt.Sprintf("%010d", i), DeletedFor: "config-changed", Attempt: 2, UnansweredAttempts: 1, ReturnedAttempts: 1,
		Addresses: resources.Addresses{Interface: fmt.Sprintf("203.0.113.%d", i%250+1),
			PublicIPv4: fmt.Sprintf("203.0.113.%d", i%250+1), PrivateIPv4: fmt.Sprintf("10.0.%d.%d", i/250%250, i%250+1),
			PublicIPv6: fmt.Sprintf("2001:db8::%x", i+1)},
		Zone: "nova", Cloud: "vexxhost", Region: "ca-ymq-1", HostID: fmt.Sprintf("%056x", i%97),
		Hostname:   fmt.Sprintf("debian-small-cloud-%02d-%010d", i%20, i),
		Login:      resources.Login{Username: "zuul", PythonPath: "auto", ShellType: "sh", ConnectionType: "ssh", ConnectionPort: 22},
		HostKeys:   []string{fmt.Sprintf("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI%043x", i), fmt.Sprintf("ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABB%087x", i)},
		Resources:  resources.ResourceAmounts{Instances: 1, Cores: 2, RAM: 4096, Volumes: 1, VolumeGB: 40, Addresses: 1},
		Attributes: map[string]string{"executor-zone": "eu", "rack": fmt.Sprintf("r%d", i%9)}, Seconds: 41.25,
		Comment: "büro <&> \u2028", Error: "", Slot: int64(i % 3),
	}
}

// record returns a complete record of the kind, different for each i. Records of the kinds that the store numbers have
// no ID.
func record(kind resources.Kind, i int) resources.Record {
	switch kind {
	case resources.KindProvider:
		return &resources.ProviderRecord{Name: fmt.Sprintf("cloud-%02d", i), Driver: "openstack",
			Config: json.RawMessage(`{"cloud":"vexxhost","n":12345678901234567890}`), PreventDestroy: true}
	case resources.KindImage:
		return &resources.ImageRecord{Name: fmt.Sprintf("debian-%02d", i), Kind: resources.DiskImage, PreventDestroy: true, Paused: true}
	case resources.KindBuild:
		return &resources.Build{ID: fmt.Sprintf("%032x", i+1), Image: "debian", Kind: resources.DiskImage,
			State: resources.StateBuilding, StateTime: moment, Created: moment, Builder: "dib", Host: "builder01",
			HostID: "b5f0", Hash: "v1:aa", Login: resources.Login{Username: "debian"}, Seconds: 1.5, Error: "none",
			Files: []resources.ImageFile{{Format: "qcow2", Name: "debian-1.qcow2", Size: 1 << 40, SHA256: "ab", MD5: "cd"}},
			Extra: map[string]string{"zuul_build": "1234"}}
	case resources.KindUpload:
		return &resources.Upload{Image: "debian", Build: fmt.Sprintf("%032x", i+1), Provider: "vexxhost",
			State: resources.StateUploading, StateTime: moment, Created: moment, Format: "qcow2", ExternalID: "x", Name: "debian-17",
			Size: 1 << 40, Hash: "v1:aa", Settings: "v1:bb", Login: resources.Login{Username: "debian"}, Seconds: 2.25, Error: "none"}
	case resources.KindNode:
		return Node(i)
	case resources.KindRequest:
		return &resources.Request{State: resources.StateRequested, StateTime: moment, Created: moment, Labels: []string{"a", "b", "a"},
			Priority: 200, RelativePriority: int64(i), Requestor: "zuul", Tenant: "acme", Data: json.RawMessage(`{"n":12345678901234567890}`),
			Declined: []resources.Decline{{Provider: "one", Pool: "main", Reason: "too large"}}}
	case resources.KindJournal:
		return &resources.Journal{Events: []resources.Event{{Time: moment, Subject: fmt.Sprintf("node/%d", i), Code: "ready", Text: "it is ready"}}}
	case resources.KindAudit:
		return &resources.Audit{Time: moment, Operation: "apply", Actor: "anna@host", Objects: []string{"node.1"}, Overrides: []string{"check.a: b"},
			Result: resources.AuditDone, Seconds: float64(i)}
	case resources.KindUse:
		return &resources.Use{Hour: moment.Truncate(time.Hour).Add(time.Duration(i) * time.Hour), Seconds: 3600, Rows: []resources.UseRow{
			{UseGroup: resources.UseGroup{Label: "debian", Provider: "vexxhost", Pool: "main", Tenant: "acme", Project: "büro <&> \u2028", Currency: "EUR"},
				UseAmounts: resources.UseAmounts{InUse: 1 << 40, Cost: resources.MoneyLimit, Waits: [6]int64{1, 5: 2}}},
			{UseGroup: resources.UseGroup{Remainder: true}, UseAmounts: resources.UseAmounts{Ready: 1, Launching: 2, Other: 3, Unpriced: 6, Failed: 4}}}}
	case resources.KindTemplate:
		return &resources.Template{Hash: resources.Hash(fmt.Sprintf("v1:%04x", i)), Static: map[string]string{"flavor": "v3", "key": "(sensitive)"},
			Files: map[string]string{"files/a": fmt.Sprintf("%016x", i)}}
	case resources.KindSighting:
		return &resources.Sighting{Provider: "vexxhost", Type: "server", External: fmt.Sprintf("x-%02d", i), First: moment, Last: moment, Count: 2}
	case resources.KindHistory:
		return &resources.History{Subject: fmt.Sprintf("build/debian-%02d", i), Seconds: []float64{1, 2.5, 1e9}}
	case resources.KindTrial:
		return &resources.Trial{Upload: fmt.Sprintf("%010d", i), Build: "b", Launched: moment, Failures: 2, Since: moment,
			Failed: moment, Error: "no answer", Passed: 1, Validated: moment, Rejected: &resources.Decision{Time: moment, Actor: resources.ValidationActor, Reason: "no network"}}
	default:
		panic("statetest: no sample of kind " + kind)
	}
}

// touched returns a copy of r with another content and the same key.
func touched(r resources.Record) resources.Record {
	switch r := r.(type) {
	case *resources.ProviderRecord:
		c := *r
		c.Driver += "+"
		return &c
	case *resources.ImageRecord:
		c := *r
		c.Paused = !c.Paused
		return &c
	case *resources.Build:
		c := *r
		c.Error += "+"
		return &c
	case *resources.Upload:
		c := *r
		c.Error += "+"
		return &c
	case *resources.Node:
		c := *r
		c.Comment += "+"
		return &c
	case *resources.Template:
		c := *r
		c.Static = map[string]string{"flavor": r.Static["flavor"] + "+"}
		return &c
	case *resources.Sighting:
		c := *r
		c.Count++
		return &c
	case *resources.Request:
		c := *r
		c.Error += "+"
		return &c
	case *resources.Journal:
		c := *r
		c.Events = append([]resources.Event{{Text: "before"}}, c.Events...)
		return &c
	case *resources.Audit:
		c := *r
		c.Error += "+"
		return &c
	case *resources.Use:
		c := *r
		c.Seconds++
		return &c
	case *resources.Trial:
		c := *r
		c.Failures++
		return &c
	case *resources.History:
		c := *r
		c.Seconds = append([]float64{}, append(c.Seconds, 7)...)
		return &c
	default:
		panic("statetest: unknown record")
	}
}

// clone returns a deep copy.
func clone(r resources.Record) resources.Record {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	c := resources.NewRecord(r.Key().Kind)
	if err := json.Unmarshal(text, c); err != nil {
		panic(err)
	}
	return c
}
