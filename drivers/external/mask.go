package external

import (
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// masker removes the secrets of a provider from what its program prints. It masks before it shortens: a part of a secret
// would not match.
type masker struct{ secrets *process.Masker }

// The longest texts of a program, in bytes.
const (
	longestText  = 4 << 10
	longestError = 16 << 10
)

// line returns a text for people as one line.
func (m masker) line(s string) string { return text.Cut(text.Line(m.secrets.Text(s)), longestText) }

// err returns an error with the same kind and cause.
func (m masker) err(err error) error {
	if err == nil {
		return nil
	}
	before := err.Error()
	if after := text.Cut(m.secrets.Text(before), longestError); after != before {
		return &maskedError{err, after}
	}
	return err
}

// problems masks problems in place.
func (m masker) problems(all []resources.Problem) []resources.Problem {
	for i := range all {
		p := &all[i]
		p.Value, p.Detail = m.secrets.Text(p.Value), m.line(p.Detail)
		for n := range p.Suggestions {
			p.Suggestions[n] = m.secrets.Text(p.Suggestions[n])
		}
	}
	return all
}

// maskedError is an error with another text.
type maskedError struct {
	error
	text string
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.error }

// clean masks the texts for people in a response. Problems and errors are masked when they leave the driver.
func (r *response) clean(m masker) {
	r.Location = m.line(r.Location)
	if r.Console != nil {
		masked := m.secrets.Text(*r.Console)
		r.Console = &masked
	}
	if r.Instance != nil {
		r.Instance.Fault = m.line(r.Instance.Fault)
	}
	if r.Instances != nil {
		for i := range *r.Instances {
			(*r.Instances)[i].Fault = m.line((*r.Instances)[i].Fault)
		}
	}
	for _, described := range [][]setting{r.Provider, r.Label} {
		for i := range described {
			described[i].Doc = m.line(described[i].Doc)
		}
	}
}
