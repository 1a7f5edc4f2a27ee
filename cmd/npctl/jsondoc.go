package main

import (
	"errors"

	"github.com/npctl/npctl/config"
)

// failure is the document that commands with -json print in place of their own when they fail; see docs/json.md.
type failure struct {
	FormatVersion string                  `json:"format_version"`
	Errored       bool                    `json:"errored"`
	Error         *errorWords             `json:"error,omitempty"`
	Diagnostics   []config.JSONDiagnostic `json:"diagnostics,omitempty"`
}

// errorWords is an error and its hint.
type errorWords struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func failureDocument(err error) failure {
	f := failure{FormatVersion: jsonVersion, Errored: true}
	var diags *diagnosed
	if errors.As(err, &diags) {
		f.Diagnostics = config.JSON(diags.diags, diags.files).Diagnostics
		return f
	}
	f.Error = &errorWords{Message: err.Error(), Hint: nextStep(err)}
	return f
}
