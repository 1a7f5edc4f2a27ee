package external

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// description is the response to describe.
type description struct {
	Protocols []int     `json:"npctl_protocols,omitempty"` // versions of the protocol
	Program   string    `json:"program,omitempty"`         // name and version, for people
	Abilities []string  `json:"abilities,omitempty"`       // optional calls
	Provider  []setting `json:"provider,omitempty"`        // settings of the provider
	Label     []setting `json:"label,omitempty"`           // settings of labels
}

// setting describes one setting.
type setting struct {
	Name     string   `json:"name"`
	Type     string   `json:"type,omitempty"` // string, number or bool; default string
	Required bool     `json:"required,omitempty"`
	Secret   bool     `json:"secret,omitempty"` // of the provider: one of its secrets
	OneOf    []string `json:"one_of,omitempty"`
	Doc      string   `json:"doc,omitempty"`
}

// settingTypes are the types of settings; their values are strings in the configuration.
var settingTypes = []string{"", "string", "number", "bool"}

// check returns an error if npctl cannot work with the program.
func (d description) check() error {
	if !slices.Contains(d.Protocols, version) {
		return fmt.Errorf("it has the versions %v of the protocol in npctl_protocols, this npctl has %d", d.Protocols, version)
	}
	for _, ability := range d.Abilities {
		if !slices.Contains(optionalCalls, ability) {
			return fmt.Errorf("it announces the unknown ability %q; there are %s%s", ability, text.And(optionalCalls), didYouMean(ability, optionalCalls))
		}
	}
	for _, s := range append(d.Provider[:len(d.Provider):len(d.Provider)], d.Label...) {
		if !settingName().MatchString(s.Name) || !slices.Contains(settingTypes, s.Type) {
			return fmt.Errorf("setting %q of type %q: a name has lower-case letters, digits and underscores, a type is %s",
				s.Name, s.Type, text.And(settingTypes[1:]))
		}
	}
	return nil
}

func (d description) can(call string) bool { return slices.Contains(d.Abilities, call) }

func didYouMean(word string, options []string) string {
	if near := text.Nearest(word, options); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// checkProvider returns the errors in the settings and secrets of the provider.
func (d description) checkProvider(settings, secrets map[string]string) []resources.Problem {
	open, hidden := split(d.Provider)
	problems := append(checkValues("settings", settings, open), checkValues("secrets", secrets, hidden)...)
	for i, p := range problems {
		other, place := hidden, "secrets"
		if p.Attribute == "secrets" {
			other, place = open, "settings"
		}
		if slices.ContainsFunc(other, func(s setting) bool { return s.Name == p.Value }) {
			problems[i].Detail = fmt.Sprintf("%s belongs to %s", p.Value, place)
		}
	}
	return problems
}

func split(settings []setting) (open, secret []setting) {
	for _, s := range settings {
		if s.Secret {
			secret = append(secret, s)
		} else {
			open = append(open, s)
		}
	}
	return open, secret
}

// checkValues compares the settings in an attribute with their description.
func checkValues(attribute string, values map[string]string, known []setting) []resources.Problem {
	var names, misspelled []string
	for _, s := range known {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	var problems []resources.Problem
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			near := text.Near(name, names)
			misspelled = append(misspelled, near...)
			problems = append(problems, resources.Problem{Attribute: attribute, Value: name, Suggestions: near,
				Detail: fmt.Sprintf("the program has no setting %s; it has %s", name, listed(names))})
		}
	}
	for _, s := range known {
		value, set := values[s.Name]
		switch detail := s.problem(value); {
		case !set && s.Required && !slices.Contains(misspelled, s.Name):
			problems = append(problems, resources.Problem{Attribute: attribute, Detail: fmt.Sprintf("the setting %s is required%s", s.Name, explain(s.Doc))})
		case set && detail != "":
			p := resources.Problem{Attribute: attribute, Value: value, Detail: fmt.Sprintf("setting %s: %s", s.Name, detail), Suggestions: text.Near(value, s.OneOf)}
			if attribute == "secrets" {
				p.Value, p.Suggestions = "", nil
			}
			problems = append(problems, p)
		}
	}
	return problems
}

func explain(doc string) string {
	if doc == "" {
		return ""
	}
	return ": " + text.Cut(text.Line(doc), 200)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return text.And(names)
}

// problem returns why a value is invalid, or "".
func (s setting) problem(value string) string {
	switch {
	case len(s.OneOf) > 0 && !slices.Contains(s.OneOf, value):
		return "the value is none of " + strings.Join(s.OneOf, ", ")
	case s.Type == "number":
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return "the value is no number"
		}
	case s.Type == "bool" && value != "true" && value != "false":
		return "the value is neither true nor false"
	}
	return ""
}
