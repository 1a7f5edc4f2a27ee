package zookeeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// buildJSON is a build of an image as Nodepool's builder writes it.
type buildJSON struct {
	State    text        `json:"state"`
	Time     seconds     `json:"state_time"`
	Host     text        `json:"builder"`
	HostID   text        `json:"builder_id"`
	Formats  text        `json:"formats"` // comma-separated
	Username *text       `json:"username"`
	Python   text        `json:"python_path"`
	Shell    text        `json:"shell_type"`
	Extra    *buildExtra `json:"npctl"`
}

// buildExtra holds the attributes without a key in Nodepool's documents.
type buildExtra struct {
	Kind        *resources.ImageKind   `json:"kind,omitempty"`
	Created     *time.Time             `json:"created,omitempty"`
	Builder     *string                `json:"builder_kind,omitempty"`
	Hash        *resources.Hash        `json:"hash,omitempty"`
	Files       *[]resources.ImageFile `json:"files,omitempty"`
	Login       *resources.Login       `json:"login,omitempty"`
	Seconds     *float64               `json:"seconds,omitempty"`
	Error       *string                `json:"error,omitempty"`
	Extra       *map[string]string     `json:"extra,omitempty"`
	Version     *string                `json:"version,omitempty"`
	VersionTime *time.Time             `json:"dated,omitempty"`
	Imported    *bool                  `json:"imported,omitempty"`
	Remote      *bool                  `json:"remote,omitempty"`
}

func decodeBuild(p znodeRef, data []byte, created int64) (record, base resources.Record, err error) {
	var doc buildJSON
	if err := unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	if doc.State == "" {
		return nil, nil, errors.New("it has no state")
	}
	// The files of a Nodepool build are on the disk of its builder, and only that builder uploads or deletes them.
	b := &resources.Build{ID: p.id, Image: p.parts[2], Kind: resources.DiskImage, State: resources.State(doc.State),
		StateTime: doc.Time.Time, Created: time.UnixMilli(created).UTC(), Host: string(doc.Host), HostID: string(doc.HostID),
		Login: imageLogin(doc.Username, doc.Python, doc.Shell), Remote: true}
	for _, format := range strings.Split(string(doc.Formats), ",") {
		if format = strings.TrimSpace(format); format != "" {
			b.Files = append(b.Files, resources.ImageFile{Format: format})
		}
	}
	bare := *b
	buildExtras.overlay(b, doc.Extra)
	return b, &bare, nil
}

func imageLogin(username *text, python, shell text) resources.Login {
	l := resources.Login{Username: "zuul", PythonPath: string(python), ShellType: string(shell)}
	if username != nil {
		l.Username = string(*username)
	}
	return l
}

func buildValues(record resources.Record) values {
	b := record.(*resources.Build)
	var formats []string
	for _, f := range b.Files {
		if f.Format != "" && !slices.Contains(formats, f.Format) {
			formats = append(formats, f.Format)
		}
	}
	slices.Sort(formats)
	var joined json.RawMessage // a build without formats has no such key
	if len(formats) > 0 {
		joined = asJSON(strings.Join(formats, ","))
	}
	return values{
		{"state", asJSON(b.State)}, {"state_time", formatSeconds(b.StateTime)}, {"builder", orNull(b.Host)},
		{"builder_id", orNull(b.HostID)}, {"formats", joined}, {"username", orNull(b.Login.Username)},
		{"python_path", orNull(b.Login.PythonPath)}, {"shell_type", orNull(b.Login.ShellType)},
	}
}

// uploadJSON is an upload as Nodepool's builder writes it. Image, build and provider are in its path.
type uploadJSON struct {
	State    text         `json:"state"`
	Time     seconds      `json:"state_time"`
	External anyText      `json:"external_id"`
	Name     text         `json:"external_name"`
	Format   text         `json:"format"`
	Username *text        `json:"username"`
	Python   text         `json:"python_path"`
	Shell    text         `json:"shell_type"`
	Extra    *uploadExtra `json:"npctl"`
}

// uploadExtra holds the attributes without a key in Nodepool's documents.
type uploadExtra struct {
	ID        *string          `json:"id,omitempty"`
	Created   *time.Time       `json:"created,omitempty"`
	Size      *int64           `json:"size,omitempty"`
	Hash      *resources.Hash  `json:"hash,omitempty"`
	Settings  *resources.Hash  `json:"settings,omitempty"`
	Login     *resources.Login `json:"login,omitempty"`
	Seconds   *float64         `json:"seconds,omitempty"`
	Error     *string          `json:"error,omitempty"`
	Importing *bool            `json:"importing,omitempty"`
	Unmarked  *bool            `json:"unmarked,omitempty"`
	Former    *[]string        `json:"former,omitempty"`
}

func decodeUpload(p znodeRef, data []byte, created int64) (record, base resources.Record, err error) {
	var doc uploadJSON
	if err := unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	switch {
	case doc.State == "":
		return nil, nil, errors.New("it has no state")
	case !sequence.MatchString(p.parts[8]):
		return nil, nil, errors.New("its name is not a sequence of ten digits")
	}
	// An upload by Nodepool carries Nodepool's metadata, so the absence of an image with npctl's ownership tags proves
	// nothing.
	u := &resources.Upload{ID: p.id, Image: p.parts[2], Build: buildID(p.parts[2], p.parts[4]), Provider: p.parts[6],
		State: resources.State(doc.State), StateTime: doc.Time.Time, Created: time.UnixMilli(created).UTC(), Format: string(doc.Format),
		ExternalID: string(doc.External), Name: string(doc.Name), Login: imageLogin(doc.Username, doc.Python, doc.Shell), Unmarked: true}
	bare := *u
	uploadExtras.overlay(u, doc.Extra)
	if u.ID != bare.ID && !sequence.MatchString(u.ID) {
		return nil, nil, fmt.Errorf("its npctl ID is %.40q", u.ID)
	}
	return u, &bare, nil
}

func uploadValues(record resources.Record) values {
	u := record.(*resources.Upload)
	return values{
		{"state", asJSON(u.State)}, {"state_time", formatSeconds(u.StateTime)}, {"external_id", orNull(u.ExternalID)},
		{"external_name", orNull(u.Name)}, {"format", orNull(u.Format)}, {"username", orNull(u.Login.Username)},
		{"python_path", orNull(u.Login.PythonPath)}, {"shell_type", orNull(u.Login.ShellType)},
	}
}
