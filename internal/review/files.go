package review

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/plan/render"
)

// Documents are the files of reviews, by their names in the option -to.
var Documents = map[string]func(Report) ([]byte, error){"zuul": Zuul, "sarif": SARIF, "code-quality": CodeQuality}

// document returns JSON with a line break at its end.
func document(what string, doc any) ([]byte, error) {
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return append(out, '\n'), nil
}

// zuulReturn is the data of a job for zuul_return.
type zuulReturn struct {
	Zuul struct {
		FileComments map[string][]zuulComment `json:"file_comments"`
		Warnings     []string                 `json:"warnings,omitempty"`
	} `json:"zuul"`
	// Npctl becomes variables of dependent jobs.
	Npctl struct {
		Verdict string `json:"verdict"`
		Digest  string `json:"digest"`
	} `json:"npctl"`
}

// zuulComment has only the keys that Zuul knows: another one makes Zuul drop all comments of a build.
type zuulComment struct {
	Line    int          `json:"line"`
	Level   render.Level `json:"level"`
	Message string       `json:"message"`
}

// warningLength is the maximum length of a warning for Zuul in bytes: the message of the whole report has 16 KiB.
const warningLength = 1024

// Zuul returns comments at the lines of an effect as data for zuul_return. Zuul would complain about comments in files that the change does
// not touch. Errors in them, and problems without a line, become warnings of the report.
func Zuul(r Report) ([]byte, error) {
	var doc zuulReturn
	doc.Zuul.FileComments = map[string][]zuulComment{}
	doc.Npctl.Verdict, doc.Npctl.Digest = r.Effect.String(), r.Effect.Digest()
	remarks, left := r.remarks(touched)
	for _, m := range remarks {
		doc.Zuul.FileComments[m.path] = append(doc.Zuul.FileComments[m.path], zuulComment{m.line, m.level, m.text})
	}
	warnings := r.problemsWithoutLine()
	for _, c := range left {
		if c.Level == render.LevelError {
			warnings = append(warnings, unmentioned(fmt.Sprintf("%s:%d: %s", text.Line(c.File), c.Line, strings.ReplaceAll(c.Text, "\n", "; "))))
		}
	}
	warnings = warnings[:min(len(warnings), commentLimit)]
	left = slices.DeleteFunc(left, func(c render.Comment) bool { return c.Level == render.LevelError })
	if more := leftLine(left); more != "" {
		warnings = append(warnings, "npctl: "+more)
	}
	for _, w := range warnings {
		doc.Zuul.Warnings = append(doc.Zuul.Warnings, text.Cut(w, warningLength))
	}
	return document("data for zuul_return", doc)
}

// SARIF returns the effect as a SARIF 2.1.0 log, for GitHub code scanning and editors.
func SARIF(r Report) ([]byte, error) {
	type message struct {
		Text string `json:"text"`
	}
	type location struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region struct {
				StartLine int `json:"startLine"`
			} `json:"region"`
		} `json:"physicalLocation"`
	}
	type result struct {
		RuleID       string            `json:"ruleId"`
		Level        string            `json:"level"`
		Message      message           `json:"message"`
		Locations    []location        `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	type notification struct {
		Level   string  `json:"level"`
		Message message `json:"message"`
	}
	type invocation struct {
		Successful    bool           `json:"executionSuccessful"`
		Notifications []notification `json:"toolExecutionNotifications,omitempty"`
	}
	type rule struct {
		ID          string  `json:"id"`
		Description message `json:"shortDescription"`
	}
	type driver struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	}
	type run struct {
		Tool struct {
			Driver driver `json:"driver"`
		} `json:"tool"`
		Invocations []invocation `json:"invocations"`
		Results     []result     `json:"results"`
	}
	one := run{Results: []result{}, Invocations: []invocation{{Successful: r.Verdict() != Failed}}}
	one.Tool.Driver = driver{"npctl", []rule{
		{sarifRules[render.LevelError].id, message{"A problem that prevents an apply"}},
		{sarifRules[render.LevelWarning].id, message{"The line replaces or removes objects"}},
		{sarifRules[render.LevelInfo].id, message{"The line has an effect"}},
	}}
	remarks, left := r.remarks(inRepository)
	for _, m := range remarks {
		var at location
		at.Physical.Artifact.URI, at.Physical.Region.StartLine = (&url.URL{Path: m.path}).EscapedPath(), m.line
		rule := sarifRules[m.level]
		one.Results = append(one.Results, result{rule.id, rule.level, message{m.text}, []location{at},
			map[string]string{"primaryLocationLineHash": digest(m.path, m.text) + ":1"}})
	}
	for _, line := range append(r.problemsWithoutLine(), leftLine(left)) {
		if line != "" {
			one.Invocations[0].Notifications = append(one.Invocations[0].Notifications, notification{"warning", message{line}})
		}
	}
	return document("SARIF", map[string]any{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": []run{one}})
}

// sarifRules are the rules and levels of SARIF for the levels of comments.
var sarifRules = map[render.Level]struct{ id, level string }{
	render.LevelError: {"npctl/problem", "error"}, render.LevelWarning: {"npctl/replacement", "warning"}, render.LevelInfo: {"npctl/effect", "note"},
}

// inRepository accepts each file of the repository.
func inRepository(planfile.ConfigurationFile) bool { return true }

// qualityIssue is an issue of a code quality report.
type qualityIssue struct {
	Description string          `json:"description"`
	CheckName   string          `json:"check_name"`
	Fingerprint string          `json:"fingerprint"`
	Severity    string          `json:"severity"`
	Location    qualityLocation `json:"location"`
}

type qualityLocation struct {
	Path  string `json:"path"`
	Lines struct {
		Begin int `json:"begin"`
	} `json:"lines"`
}

// CodeQuality returns the effect as a code quality report of GitLab.
func CodeQuality(r Report) ([]byte, error) {
	severity := map[render.Level]string{render.LevelError: "critical", render.LevelWarning: "minor", render.LevelInfo: "info"}
	issues := []qualityIssue{}
	remarks, _ := r.remarks(inRepository)
	for _, m := range remarks {
		issue := qualityIssue{strings.ReplaceAll(m.text, "\n", "; "), sarifRules[m.level].id, digest(m.path, m.text), severity[m.level], qualityLocation{Path: m.path}}
		issue.Location.Lines.Begin = m.line
		issues = append(issues, issue)
	}
	return document("code quality report", issues)
}
