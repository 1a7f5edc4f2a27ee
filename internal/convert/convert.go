// Package convert translates Nodepool's configuration to npctl's. Convert reads nodepool.yaml and the secure file and
// returns HCL files and a report with an entry for each key of the input. It reads and writes no files itself.
package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Input is a configuration of Nodepool.
type Input struct {
	Name       string // of the main file, for messages
	YAML       []byte
	SecureName string
	Secure     []byte // nil without a secure file
	Options    Options
}

// Options select the form of the output.
type Options struct {
	Split bool // several files by topic instead of one
	Plain bool // no locals, dynamic blocks and attributes of pools in the place of repetition
}

// Result is the translation.
type Result struct {
	Files  []File
	Report []Entry // in the order of the input
	// Env are the environment variables that the input refers to with %(NAME).
	Env []string
}

// File is a file to write.
type File struct {
	Name string
	Data []byte
	Mode fs.FileMode
}

// Verdict is the result of the translation of a key.
type Verdict string

// The verdicts.
const (
	Converted   Verdict = "converted"
	Changed     Verdict = "changed"     // npctl behaves differently; the entry has a note
	NoEffect    Verdict = "no-effect"   // the key has no effect in Nodepool or needs no counterpart in npctl
	Unsupported Verdict = "unsupported" // npctl has nothing like it
)

// Entry reports the translation of one key.
type Entry struct {
	File    string  `json:"file"`
	Path    string  `json:"path"`
	Line    int     `json:"line"`
	Verdict Verdict `json:"verdict"`
	Note    string  `json:"note,omitempty"`
	Link    string  `json:"link,omitempty"`
}

// Error is a mistake in the input.
type Error struct {
	File    string
	Line    int // 0 if the whole file is meant
	Message string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// SecretsFile is the name of the file with the values of the secure file. npctl reads it from the directory of the
// configuration.
const SecretsFile = "secrets.auto.vars.hcl"

// Convert translates a configuration. If the input has errors, it returns all of them as one error and no result.
func Convert(in Input) (*Result, error) {
	c := &converter{opts: in.Options, emitted: map[*yaml.Node]bool{}, labels: map[string]bool{}, images: map[string]*image{}, env: map[string]bool{}}
	c.main = source{c: c, name: cmp.Or(in.Name, "nodepool.yaml"), text: in.YAML}
	c.secret = source{c: c, name: cmp.Or(in.SecureName, "secure.conf"), text: in.Secure, secure: true}
	root, secure := c.main.read(), (*node)(nil)
	if in.Secure != nil {
		secure = c.secret.read()
	}
	if len(c.errs) > 0 {
		return nil, c.failure()
	}
	c.translate(root, secure)
	if len(c.errs) > 0 {
		return nil, c.failure()
	}
	if !in.Options.Plain {
		c.out.compact()
	}
	files, err := c.files()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.report, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	r := &Result{Files: files, Report: c.report}
	for name := range c.env {
		r.Env = append(r.Env, name)
	}
	slices.Sort(r.Env)
	return r, nil
}

// converter holds the state of one translation.
type converter struct {
	opts         Options
	main, secret source
	errs         []error
	report       []Entry
	emitted      map[*yaml.Node]bool // nodes whose comments are in the output
	env          map[string]bool

	labels     map[string]bool
	images     map[string]*image
	imageOrder []string
	out        output
}

// output are the blocks of the translation, by topic.
type output struct {
	head, foot []string // comments
	settings   []*block // npctl, variables, locals
	labels     []*block
	images     []*block
	providers  []*block
	secrets    []*block // one block without a header
	elements   string   // expression of element_paths, or ""
}

const maxErrors = 50

func (c *converter) fail(n *node, format string, args ...any) {
	if len(c.errs) < maxErrors {
		c.errs = append(c.errs, &Error{n.src.name, n.line, fmt.Sprintf(format, args...)})
	}
}

func (c *converter) failure() error { return errors.Join(c.errs...) }

// guide is the page that the links of the report refer to.
const guide = "docs/coming-from-nodepool.md#"

// note adds the entry of a key to the report.
func (c *converter) note(e *entry, verdict Verdict, note, anchor string) {
	if e.done {
		return
	}
	e.done = true
	link := ""
	if anchor != "" {
		link = guide + anchor
	}
	c.report = append(c.report, Entry{e.value.src.name, e.path, e.line, verdict, note, link})
}

// amend changes the entry of a key in the report.
func (c *converter) amend(e *entry, verdict Verdict, note, anchor string) {
	for i := range c.report {
		if r := &c.report[i]; r.Path == e.path && r.File == e.value.src.name {
			r.Verdict, r.Note, r.Link = verdict, note, guide+anchor
		}
	}
}

// translate fills the output. Labels and images come first because the others refer to them.
func (c *converter) translate(root, secure *node) {
	if root.kind != mappingNode {
		c.fail(root, "%s is not a configuration of Nodepool: it has to be a mapping with keys such as labels and providers", root.src.name)
		return
	}
	c.out.head = c.comments(root)
	secrets := c.secure(secure)
	c.settings(root, secrets)
	c.labelBlocks(root)
	c.diskimages(root, secrets)
	c.providers(root)
	c.rest(root, nil, topKeys)
	if secure != nil && len(c.out.secrets) > 0 {
		c.out.secrets[0].foot = c.leftComments(secure)
	}
	c.out.foot = append(c.leftComments(root), c.lostComments(root)...)
}

var topKeys = []string{"webapp", "elements-dir", "images-dir", "build-log-dir", "build-log-retention", "zookeeper-servers", "zookeeper-tls",
	"zookeeper-timeout", "labels", "max-hold-age", "diskimages", "providers", "tenant-resource-limits"}
