// Package convert translates Nodepool's configuration to npctl's. Convert reads nodepool.yaml and the secure file and
// returns HCL files and a report with an entry for each key of the input. Compare compares the result with the values in
// effect in Nodepool. Both know the keys of a driver by the table in its schema. They read and write no files themselves.
package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	words "github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources/schema"
)

// Input is a configuration of Nodepool.
type Input struct {
	Name       string // of the main file, for messages
	YAML       []byte
	SecureName string
	Secure     []byte // nil without a secure file
	Options    Options
	// Drivers are the schemas of drivers by kind. Those with the keys of Nodepool are translated.
	Drivers map[string]schema.Driver
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
	// Places has the place in the input for each line of Data. It is exact with Options.Plain.
	Places []Place
}

// Place is a line of the input. The zero value is no place.
type Place struct {
	File string
	Line int
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
	t, o := newTranslator(in.Drivers), &output{}
	root, secure := t.read(source{name: cmp.Or(in.Name, "nodepool.yaml"), text: in.YAML}), (*node)(nil)
	if in.Secure != nil {
		secure = t.read(source{name: cmp.Or(in.SecureName, "secure.conf"), text: in.Secure, secure: true})
	}
	if err := t.err(); err != nil {
		return nil, err
	}
	t.translate(o, root, secure)
	if err := t.err(); err != nil {
		return nil, err
	}
	if !in.Options.Plain {
		o.compact(t.drivers)
	}
	files, err := o.files(in.Options.Split)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(t.entries, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return &Result{Files: files, Report: t.entries, Env: sortedKeys(t.environment)}, nil
}

// problems are the mistakes of the input.
type problems struct{ mistakes []error }

const maxErrors = 50

func (p *problems) fail(n *node, format string, args ...any) {
	mistake := Error{n.src.name, n.line, fmt.Sprintf(format, args...)}
	if len(p.mistakes) < maxErrors && !slices.ContainsFunc(p.mistakes, func(err error) bool { return err.Error() == mistake.Error() }) {
		p.mistakes = append(p.mistakes, &mistake)
	}
}

func (p *problems) err() error { return errors.Join(p.mistakes...) }

// wrong reports a value of another type. It returns the result of a reader.
func (p *problems) wrong(n *node, want string) (string, bool) {
	got := "a mapping"
	switch n.kind {
	case listNode:
		got = "a list"
	case nullNode:
		got = "nothing"
	case scalarNode:
		got = strconv.Quote(words.Shorten(restoreEnv(n.text), 60))
		if n.src.secure {
			got = "another value"
		}
	}
	p.fail(n, "%s is %s; it has to be %s", n.key(), got, want)
	return "", false
}

// unknown reports a name that refers to nothing.
func (p *problems) unknown(n *node, what, name string, known []string) {
	hint := ""
	if near := words.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	p.fail(n, "there is no %s %q%s", what, name, hint)
}

// output are the blocks of the translation, by topic.
type output struct {
	head, foot []string // comments
	settings   []*block // npctl, variables, locals
	labels     []*block
	images     []*block
	providers  []*block
	secrets    []*block // one block without a header
}

// moveSecret makes the value of a sensitive variable from an expression, and returns a reference to the variable.
func (o *output) moveSecret(variable, typ, doc, expr string) string {
	v := newBlock("variable", variable)
	v.set("description", quote(doc+" The value is in "+SecretsFile+"."))
	v.set("type", typ)
	v.set("sensitive", "true")
	o.settings = append(o.settings, v)
	if len(o.secrets) == 0 {
		o.secrets = []*block{newBlock("")}
		o.secrets[0].comment = []string{"# Values from Nodepool's secure file. Keep this file out of version control.", ""}
	}
	o.secrets[0].set(variable, expr)
	return "var." + variable
}

// translate fills the output. Labels and images come first because the others refer to them.
func (t *translator) translate(o *output, root, secure *node) {
	if root.kind != mappingNode {
		t.fail(root, "%s is not a configuration of Nodepool: it has to be a mapping with keys such as labels and providers", root.src.name)
		return
	}
	o.head = t.comments(root)
	secrets := t.secrets(secure)
	if old := root.oldFormat(); old != nil {
		t.fail(old, "the file has the format of Nodepool 0.x, which Nodepool 3.0 and later do not read (%s); "+
			"write it in the present format, in which a label is in the pools of providers and an image in diskimages", old.path)
		return
	}
	t.settings(o, root, secrets)
	o.labels = t.topLabels(root)
	images := &images{translator: t, all: map[string]*image{}}
	images.translate(o, root, secrets)
	o.providers = t.blocks(root.get("providers"), "provider", "provider", strictName, func(n *node, b *block) {
		(&provider{translator: t, images: images, b: b, driver: "openstack"}).translate(n)
	})
	o.providers = t.splitProjects(o.providers)
	unknown := newBlock("")
	t.rest(root, unknown, nil, topKeys...)
	for _, it := range unknown.items {
		o.head = append(o.head, it.comment...)
	}
	if secure != nil && len(o.secrets) > 0 {
		o.secrets[0].foot = t.leftComments(secure)
	}
	o.foot = append(t.leftComments(root), lostComments(root)...)
}

// oldFormat returns a value that only a configuration of Nodepool 0.x has, or nil.
func (n *node) oldFormat() *node {
	for _, old := range [][2]string{{"labels", "image"}, {"labels", "providers"}, {"providers", "images"}} {
		for _, it := range n.get(old[0]).unchecked() {
			if e := it.get(old[1]); e != nil {
				return e.value
			}
		}
	}
	return nil
}

var topKeys = []string{"webapp", "elements-dir", "images-dir", "build-log-dir", "build-log-retention", "zookeeper-servers", "zookeeper-tls",
	"zookeeper-timeout", "labels", "max-hold-age", "diskimages", "providers", "tenant-resource-limits"}
