package gearman

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/resources"
)

// Functions, each followed by the name of an image or the ID of a build.
const (
	buildPrefix    = "image-build:"
	uploadPrefix   = "image-upload:"
	deletePrefix   = "image-delete:"
	versionsPrefix = "image-versions:" // of npctl alone
)

// buildRequest is the data of image-build.
type buildRequest struct {
	ID    text        `json:"image-id"`
	OldID text        `json:"image_id,omitempty"` // the key in the first weeks of the original
	Npctl *buildExtra `json:"npctl,omitempty"`
}

type buildExtra struct {
	Formats []string `json:"formats,omitempty"`
	Timeout int64    `json:"timeout,omitempty"` // seconds
	Version string   `json:"version,omitempty"` // of an image with an external source
	Reports bool     `json:"reports,omitempty"` // send WORK_DATA
}

// buildAnswer is the result of image-build.
type buildAnswer struct {
	ID    text         `json:"image-id"`
	Npctl *buildResult `json:"npctl,omitempty"`
}

type buildResult struct {
	Host  string                `json:"host,omitempty"`
	Files []resources.ImageFile `json:"files,omitempty"`
}

// sendRequest is the data of image-upload.
type sendRequest struct {
	Provider string     `json:"provider"`
	Image    string     `json:"image-name"`
	Npctl    *sendExtra `json:"npctl,omitempty"`
}

type sendExtra struct {
	Format     string              `json:"format,omitempty"`
	Name       string              `json:"name,omitempty"`
	Marks      resources.OwnerJSON `json:"marks"`
	Properties map[string]string   `json:"properties,omitempty"`
	Tags       []string            `json:"tags,omitempty"`
	Reports    bool                `json:"reports,omitempty"`
}

// sendAnswer is the result of image-upload.
type sendAnswer struct {
	External text `json:"external-id"`
}

// versionsAnswer is the result of image-versions, newest first.
type versionsAnswer struct {
	Versions []version `json:"versions"`
}

// version is the JSON form of resources.Version.
type version struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
}

// report is one WORK_DATA packet, sent only to clients that request reports: other clients take the first data for the
// result.
type report struct {
	Host  string `json:"host,omitempty"`  // the host that starts the job
	Phase string `json:"phase,omitempty"` // current phase; the numbers are in WORK_STATUS
	Log   string `json:"log,omitempty"`   // a piece of the build's log
	Error string `json:"error,omitempty"` // reason for the WORK_FAIL that follows
	Kind  string `json:"kind,omitempty"`  // of the error
}

// text is a string that other programs may write as a number.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	var number json.Number
	if json.Unmarshal(data, &number) == nil && len(data) > 0 && data[0] != '"' {
		*t = text(number)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

// errRefused is wrapped by the error for an invalid request.
var errRefused = errors.New("refused")

const longestName = 200

// checkName rejects names of images or builds that are paths or would break the servers' listings.
func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return errors.New("it is empty, or a directory")
	case len(name) > longestName:
		return fmt.Errorf("it is longer than %d bytes", longestName)
	case !utf8.ValidString(name):
		return errors.New("it is not in UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unicode.IsSpace(r) || unicode.IsControl(r) }):
		return errors.New("it must not contain a slash or a space")
	}
	return nil
}

// requestsReports reports whether the client of a build or an upload requests reports.
func requestsReports(request []byte) bool {
	var r struct {
		Npctl struct {
			Reports bool `json:"reports"`
		} `json:"npctl"`
	}
	return json.Unmarshal(request, &r) == nil && r.Npctl.Reports
}

func readBuildRequest(data []byte) (buildRequest, error) {
	var r buildRequest
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("arguments %s: %w", excerpt(data), err)
	}
	r.ID = cmp.Or(r.ID, r.OldID)
	if err := checkName(string(r.ID)); err != nil {
		return r, fmt.Errorf("%w: image-id %q: %w", errRefused, r.ID, err)
	}
	if r.Npctl == nil {
		r.Npctl = &buildExtra{}
	}
	return r, nil
}

func readSendRequest(data []byte) (sendRequest, error) {
	var r sendRequest
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("arguments %s: %w", excerpt(data), err)
	}
	if r.Provider == "" || r.Image == "" {
		return r, fmt.Errorf("%w: arguments %s do not contain a provider or an image-name", errRefused, excerpt(data))
	}
	if r.Npctl == nil {
		r.Npctl = &sendExtra{}
	}
	return r, nil
}

// readBuildAnswer parses the answer of a build host. The first originals sent an empty answer.
func readBuildAnswer(data []byte, id string) (buildResult, error) {
	var a buildAnswer
	if len(data) == 0 {
		return buildResult{}, nil
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return buildResult{}, fmt.Errorf("response %s of the build host: %w", excerpt(data), err)
	}
	if a.ID != "" && string(a.ID) != id {
		return buildResult{}, fmt.Errorf("the build host responds for build %q, not %q", a.ID, id)
	}
	if a.Npctl == nil {
		return buildResult{}, nil
	}
	for _, f := range a.Npctl.Files {
		if checkName(f.Name) != nil || checkName(f.Format) != nil || f.Size < 0 {
			return buildResult{}, fmt.Errorf("the response of the build host contains no file: %+v", f)
		}
	}
	return *a.Npctl, nil
}

func readSendAnswer(data []byte) (string, error) {
	var a sendAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return "", fmt.Errorf("response %s of the build host: %w", excerpt(data), err)
	}
	if a.External == "" {
		return "", fmt.Errorf("response %s of the build host contains no ID of the image in the cloud", excerpt(data))
	}
	return string(a.External), nil
}

func readVersions(data []byte) ([]resources.Version, error) {
	var a versionsAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("response %s of the build host: %w", excerpt(data), err)
	}
	if a.Versions == nil {
		return nil, fmt.Errorf("response %s of the build host contains no list of versions", excerpt(data))
	}
	var found []resources.Version
	for _, v := range a.Versions[:min(len(a.Versions), builders.MaxVersions)] {
		if err := checkName(v.ID); err != nil {
			return nil, fmt.Errorf("the build host reports version %s: %w", excerpt([]byte(v.ID)), err)
		}
		found = append(found, resources.Version(v))
	}
	return found, nil
}

// excerpt quotes received data, up to a limit.
func excerpt(data []byte) string {
	const most = 200
	if len(data) > most {
		return fmt.Sprintf("%q…", data[:most])
	}
	return fmt.Sprintf("%q", data)
}

func toJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // cannot fail for strings, numbers and lists of them
	}
	return data
}

// digest returns the unique ID of a job from its arguments, so that a repeated upload joins the running one.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
