package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/text"
)

// release is set by the linker for released binaries.
var release string

// version returns the release, or the module version that Go recorded in the binary.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "0.1.0-dev"
}

// versionReport is the document that version -json prints.
type versionReport struct {
	Version  string   `json:"npctl_version"`
	Revision string   `json:"revision,omitempty"`
	Modified bool     `json:"modified,omitempty"` // built from uncommitted files
	Go       string   `json:"go_version"`
	Platform string   `json:"platform"`
	Drivers  []string `json:"drivers"`
	Builders []string `json:"builders"`
	States   []string `json:"states"`
}

func newVersionCommand(a *app) *cli.Command {
	asJSON := false
	return &cli.Command{
		Name: "version", Category: categoryOther, Usage: "show the version of npctl",
		Description: `Prints the version, and the drivers and builders of this npctl.

Examples:
  npctl version
  npctl version -json

Exit codes: 0.`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON (see docs/json.md)"}},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if asJSON {
				return a.printDocument(versionFacts())
			}
			return a.ui.Print("%s", versionLine())
		},
	}
}

// versionLine returns the line that version and -version print.
func versionLine() string {
	return fmt.Sprintf("npctl %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionFacts() versionReport {
	reg := newRegistry()
	r := versionReport{Version: version(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Drivers: reg.driverKinds(), Builders: reg.builderKinds(), States: reg.stateKinds()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return r
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			r.Revision = s.Value
		case "vcs.modified":
			r.Modified = s.Value == "true"
		}
	}
	return r
}

// jsonVersion is the format_version of the JSON that this package prints; see docs/json.md.
const jsonVersion = "1.0"

// printJSON prints one document.
func (a *app) printJSON(v any) error {
	doc, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("as JSON: %w", err)
	}
	return a.ui.Print("%s", text.JSON(doc))
}

// versioned is a document with its format_version as the first member.
type versioned struct{ document any }

// MarshalJSON implements json.Marshaler. The document is an object with at least one member.
func (v versioned) MarshalJSON() ([]byte, error) {
	doc, err := json.Marshal(v.document)
	if err != nil {
		return nil, err
	}
	return append([]byte(`{"format_version":"`+jsonVersion+`",`), doc[1:]...), nil
}

// printDocument prints one document with its format_version.
func (a *app) printDocument(v any) error { return a.printJSON(versioned{v}) }

// printJSONLine prints one document on one line.
func (a *app) printJSONLine(v any) error {
	doc, err := marshalJSON(v)
	if err != nil {
		return err
	}
	return a.ui.Print("%s", doc)
}

// marshalJSON is json.Marshal with control characters escaped for a terminal.
func marshalJSON(v any) ([]byte, error) {
	doc, err := json.Marshal(v)
	return text.JSON(doc), err
}
