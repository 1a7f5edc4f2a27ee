package main

import (
	"errors"

	"github.com/npctl/npctl/config"
)

// failure is what commands with -json print instead of their document when they cannot make it; see docs/json.md.
type failure struct {
	FormatVersion string                  `json:"format_version"`
	Errored       bool                    `json:"errored"`
	Error         *errorWords             `json:"error,omitempty"`
	Diagnostics   []config.JSONDiagnostic `json:"diagnostics,omitempty"`
}

// errorWords are an error with its next step.
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
