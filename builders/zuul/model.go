package zuul

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/fetch"
)

// build is a build in the API. Before Zuul 10, the attributes of ref were attributes of the build.
type build struct {
	ID        json.Number     `json:"_id"`
	UUID      string          `json:"uuid"`
	Job       string          `json:"job_name"`
	Result    string          `json:"result"`
	Final     *bool           `json:"final"`
	EndTime   string          `json:"end_time"`
	LogURL    string          `json:"log_url"`
	Pipeline  string          `json:"pipeline"`
	Artifacts []artifact      `json:"artifacts"`
	Ref       ref             `json:"ref"`
	Project   string          `json:"project"`
	Branch    string          `json:"branch"`
	Change    json.RawMessage `json:"change"`
	NewRev    string          `json:"newrev"`
	Buildset  struct {
		Refs []ref `json:"refs"`
	} `json:"buildset"`

	id    int64
	ended time.Time
}

// ref is the git ref of a build. A JSON string has only the name of the ref.
type ref struct {
	Project string          `json:"project"`
	Branch  string          `json:"branch"`
	Change  json.RawMessage `json:"change"`
	Ref     string          `json:"ref"`
	NewRev  string          `json:"newrev"`
}

// UnmarshalJSON accepts both forms.
func (r *ref) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		return json.Unmarshal(text, &r.Ref)
	}
	type plain ref
	return json.Unmarshal(text, (*plain)(r))
}

// artifact is an artifact that a job returned. The job chooses its metadata freely.
type artifact struct {
	Name     string   `json:"name"`
	URL      string   `json:"url"`
	Metadata metadata `json:"metadata"`
}

type metadata map[string]any

// UnmarshalJSON ignores a value that is not an object.
func (m *metadata) UnmarshalJSON(text []byte) error {
	var values map[string]any
	if json.Unmarshal(text, &values) == nil {
		*m = values
	}
	return nil
}

func (m metadata) text(names ...string) string {
	for _, name := range names {
		if text, ok := m[name].(string); ok && strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// uuidForm ensures that an ID is a single path component.
var uuidForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{7,63}$`)

// complete sets the derived fields.
func (b *build) complete() error {
	if !uuidForm.MatchString(b.UUID) {
		return fmt.Errorf("a build has the ID %.80q, which is not valid", b.UUID)
	}
	b.id, _ = b.ID.Int64()
	if b.EndTime == "" {
		return nil // it is running
	}
	for _, layout := range []string{"2006-01-02T15:04:05", time.RFC3339} { // Parse also accepts fractions of a second
		if ended, err := time.Parse(layout, b.EndTime); err == nil {
			b.ended = ended.UTC()
			return nil
		}
	}
	return fmt.Errorf("build %s ended at %.80q, which is not a time", b.UUID, b.EndTime)
}

func (b *build) project() string { return cmp.Or(b.Ref.Project, b.Project) }
func (b *build) branch() string  { return cmp.Or(b.Ref.Branch, b.Branch) }

// unmerged reports whether the build, or another in its buildset, tested a change.
func (b *build) unmerged() bool {
	return isSet(b.Change) || isSet(b.Ref.Change) || slices.ContainsFunc(b.Buildset.Refs, func(r ref) bool { return isSet(r.Change) })
}

func isSet(value json.RawMessage) bool {
	text := string(value)
	return text != "" && text != "null" && text != `""`
}

// resolve returns the absolute address of an artifact. Zuul resolves it against log_url when it stores a build, if
// there is one.
func (b *build) resolve(a artifact) (*url.URL, error) {
	address, err := url.Parse(strings.TrimSpace(a.URL))
	if err == nil && !address.IsAbs() && b.LogURL != "" {
		var logs *url.URL
		if logs, err = url.Parse(strings.TrimSuffix(b.LogURL, "/") + "/"); err == nil {
			address = logs.ResolveReference(address)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("artifact %.100q has an address that cannot be parsed", a.Name)
	}
	if address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, fmt.Errorf("artifact %.100q has the address %.200q, which is not a URL", a.Name, fetch.Redacted(address))
	}
	return address, nil
}

// longestText limits the length of stored texts from Zuul, in bytes.
const longestText = 1 << 10

// remember stores the origin of an image.
func (b *build) remember(extra map[string]string) {
	for name, text := range map[string]string{
		"zuul_build": b.UUID, "zuul_job": b.Job, "zuul_project": b.project(), "zuul_branch": b.branch(), "zuul_pipeline": b.Pipeline,
		"zuul_commit": cmp.Or(b.Ref.NewRev, b.NewRev), "zuul_end_time": b.ended.Format(time.RFC3339), "zuul_log_url": shownText(b.LogURL),
	} {
		if text != "" {
			extra[name] = bounded(text)
		}
	}
}

func bounded(text string) string { return strings.ToValidUTF8(text[:min(len(text), longestText)], "") }

// shownText returns an address without parts that may be secret.
func shownText(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || address == "" {
		return ""
	}
	return fetch.Redacted(parsed)
}
