package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/convert"
	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/text"
)

const convertDescription = `Translates Nodepool's configuration to npctl's. It reads nodepool.yaml and, if there is one, the
secure file, queries no cloud, and prints the HCL on stdout and a report on stderr. The report
has an entry for each key that npctl treats differently, ignores or does not support, with file
and line; -report-all adds the keys that are converted without a difference.

  -out=DIR          write several files by topic into a directory
  -out=FILE.hcl     write one file
  -plain            keep repetition; by default npctl moves attributes that all labels of a pool
                    share to the pool, and repeated lists of labels to a local value; similar
                    providers and static nodes become one block with for_each

The values of the secure file become sensitive variables. Their values are in the file
secrets.auto.vars.hcl beside the configuration, with access for the user only; with a secure
file, -out is therefore required. %(NODEPOOL_X) becomes env("NODEPOOL_X").

It checks its output as npctl validate and npctl fmt -check do, before it writes, and compares it
attribute by attribute with the configuration that Nodepool has in effect. The report contains
the differences on purpose; any other is an error, unless -allow-differences is given. In both
checks, environment variables that are not set have the value 1. It overwrites files only with
-force, and writes nothing if there is an error.

Examples:
  npctl convert /etc/nodepool/nodepool.yaml > npctl.hcl
  npctl convert -out=/etc/npctl /etc/nodepool/nodepool.yaml /etc/nodepool/secure.conf
  npctl convert -json nodepool.yaml | jq '.report[] | select(.verdict == "unsupported")'

Exit codes: 0 done, 1 error.`

// convertCommand implements npctl convert.
type convertCommand struct {
	*app
	out, reportFile    string
	json, force, plain bool
	reportAll          bool
	allowDifferences   bool
}

func newConvertCommand(a *app) *cli.Command {
	c := &convertCommand{app: a}
	return &cli.Command{
		Name: "convert", Category: categoryOther, Usage: "translate a configuration of Nodepool", ArgsUsage: "NODEPOOL.YAML [SECURE.CONF]", Metadata: takes(files),
		Description: convertDescription,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Destination: &c.out, TakesFile: true, Usage: "`PATH` to write to: a file *.hcl, or a directory for several files; the default is stdout"},
			&cli.BoolFlag{Name: "force", Destination: &c.force, Usage: "overwrite existing files"},
			&cli.BoolFlag{Name: "allow-differences", Destination: &c.allowDifferences, Usage: "write the files although they describe another state than nodepool.yaml; the report contains the differences"},
			&cli.BoolFlag{Name: "plain", Destination: &c.plain, Usage: "keep repetition"},
			&cli.StringFlag{Name: "report", Destination: &c.reportFile, TakesFile: true, Usage: "`FILE` for the report instead of stderr; Markdown if it ends with .md"},
			&cli.BoolFlag{Name: "report-all", Destination: &c.reportAll, Usage: "include the keys that are converted without a difference in the report"},
			&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print the files and the report as one JSON document (see docs/json.md)"},
		},
		Action: c.run,
	}
}

func (c *convertCommand) run(_ context.Context, cmd *cli.Command) error {
	args := cmd.Args().Slice()
	if len(args) == 0 || len(args) > 2 {
		return hint(fmt.Errorf("npctl convert needs the path of nodepool.yaml, and optionally that of the secure file; it got %d arguments", len(args)),
			"npctl convert nodepool.yaml secure.conf")
	}
	single := c.out == "" || strings.HasSuffix(c.out, ".hcl")
	in := convert.Input{Name: args[0], Options: convert.Options{Split: !single, Plain: c.plain}, Drivers: newRegistry().driverSchemas()}
	var err error
	if in.YAML, err = readSmall(args[0]); err != nil {
		return err
	}
	if len(args) == 2 {
		in.SecureName = args[1]
		if in.Secure, err = readSmall(args[1]); err != nil {
			return err
		}
	}
	result, err := convert.Convert(in)
	if err != nil {
		return hint(fmt.Errorf("%w", err), "correct the file; nothing was written")
	}
	checked, err := c.check(in, result)
	if err != nil {
		return err
	}
	return c.write(result, checked)
}

// convertCheck is what the check of a translation found.
type convertCheck struct {
	unset       []string           // environment variables
	comparison  *convertComparison // nil if there is none
	notCompared string             // the reason
}

// hookNotFound is the summary of the error for a post_upload_hook that does not exist.
const hookNotFound = "Hook not found"

// convertDocument is the JSON document of npctl convert.
type convertDocument struct {
	Files   []convertFile   `json:"files"`
	Report  []convert.Entry `json:"report"`
	Env     []string        `json:"env"`
	Written bool            `json:"written"`
	// Comparison is null if the translation was not compared.
	Comparison *convertComparison `json:"comparison"`
}

type convertFile struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"` // not of the file with secrets
}

// write writes the files and the report, or prints them.
func (c *convertCommand) write(r *convert.Result, checked convertCheck) error {
	if c.out == "" && len(r.Files) > 1 {
		return hint(errors.New("the secure file has values that belong into a file of their own, so stdout is not enough"), "add -out=DIR")
	}
	if c.reportFile != "" { // before files are written
		if err := c.mayCreate(c.reportFile); err != nil {
			return err
		}
	}
	var wrote []string
	if c.out != "" {
		var err error
		if wrote, err = c.writeFiles(r); err != nil {
			return err
		}
	}
	if err := c.report(r, checked); err != nil {
		return err
	}
	switch {
	case c.json:
		doc := convertDocument{Files: []convertFile{}, Report: r.Report, Env: append([]string{}, r.Env...), Written: c.out != "", Comparison: checked.comparison}
		for _, f := range r.Files {
			out := convertFile{Name: f.Name, Text: string(f.Data)}
			if f.Name == convert.SecretsFile {
				out.Text = ""
			}
			doc.Files = append(doc.Files, out)
		}
		return c.printJSON(doc)
	case c.out == "":
		return c.ui.Write(string(r.Files[0].Data))
	}
	next := "npctl plan -config=" + c.out
	if strings.HasSuffix(c.out, ".hcl") && len(wrote) > 1 { // with one file, npctl reads no other file of its directory
		next += " -var-file=" + wrote[len(wrote)-1]
	}
	return c.ui.Print("Wrote %s. Next: %s", strings.Join(wrote, ", "), next)
}

// report prints the report on stderr, or writes it to a file.
func (c *convertCommand) report(r *convert.Result, checked convertCheck) error {
	compared := func(markdown bool) string {
		if checked.comparison == nil {
			return "\n" + checked.notCompared + "\n"
		}
		return checked.comparison.report(markdown)
	}
	if c.reportFile != "" {
		text := r.Text(c.reportAll) + compared(false)
		if strings.HasSuffix(c.reportFile, ".md") {
			text = r.Markdown() + compared(true)
		}
		return c.create(c.reportFile, []byte(text), 0o644)
	}
	if c.json {
		return nil
	}
	c.ui.Message("%s", strings.TrimSuffix(r.Text(c.reportAll)+compared(false), "\n"))
	if unset := checked.unset; len(unset) > 0 {
		c.ui.Message("Environment variables that the configuration needs: %s. Not set now: %s.", strings.Join(r.Env, ", "), strings.Join(unset, ", "))
	}
	return nil
}

// writeFiles writes all files or, if one of them exists, none.
func (c *convertCommand) writeFiles(r *convert.Result) ([]string, error) {
	dir := c.out
	if strings.HasSuffix(c.out, ".hcl") {
		dir = filepath.Dir(c.out)
		r.Files[0].Name = filepath.Base(c.out)
	}
	var wrote []string
	for _, f := range r.Files {
		path := filepath.Join(dir, f.Name)
		if err := c.mayCreate(path); err != nil {
			return nil, err
		}
		wrote = append(wrote, path)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for i, f := range r.Files {
		if err := c.create(wrote[i], f.Data, f.Mode); err != nil {
			return nil, err
		}
	}
	return wrote, nil
}

func (c *convertCommand) mayCreate(path string) error {
	if _, err := os.Lstat(path); err == nil && !c.force {
		return hint(fmt.Errorf("%s exists already; nothing was written", path), "choose another path, or overwrite it with -force")
	}
	return nil
}

func (c *convertCommand) create(path string, data []byte, mode fs.FileMode) error {
	if err := host.ReplaceFile(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// inYAML moves the subjects of diagnostics to the lines of nodepool.yaml that they come from.
func inYAML(diags hcl.Diagnostics, files map[string]*hcl.File, in convert.Input, r *convert.Result) {
	files[in.Name] = &hcl.File{Bytes: in.YAML}
	for _, d := range diags {
		if d.Subject == nil {
			continue
		}
		i := slices.IndexFunc(r.Files, func(f convert.File) bool { return f.Name == d.Subject.Filename })
		if i < 0 || d.Subject.Start.Line > len(r.Files[i].Places) {
			continue
		}
		place := r.Files[i].Places[d.Subject.Start.Line-1]
		if place.Line == 0 {
			continue
		}
		at, line := hcl.Pos{Line: place.Line, Column: 1}, ""
		if place.File == in.Name {
			lines := strings.SplitAfter(string(in.YAML), "\n")
			line = strings.TrimRight(lines[place.Line-1], "\r\n")
			indent := len(line) - len(strings.TrimLeft(line, " "))
			at.Byte = len(strings.Join(lines[:place.Line-1], "")) + indent
			at.Column += indent
			line = line[indent:]
		}
		end := at
		end.Byte, end.Column = end.Byte+len(line), end.Column+len([]rune(line))
		d.Subject, d.Context = &hcl.Range{Filename: place.File, Start: at, End: end}, nil
	}
}

// check loads the files from a temporary directory as npctl plan does, checks their layout and compares them with the
// input. It uses 1 for environment variables that are not set.
func (c *convertCommand) check(in convert.Input, r *convert.Result) (checked convertCheck, err error) {
	dir, err := os.MkdirTemp("", "npctl-convert-")
	if err != nil {
		return checked, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, f := range r.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			return checked, err
		}
		if formatted, diags := config.Format(f.Data, f.Name); diags.HasErrors() || string(formatted) != string(f.Data) {
			return checked, fmt.Errorf("the translation is not in the layout of npctl fmt: %s; this is a bug in npctl convert, and nothing was written", f.Name)
		}
	}
	for _, name := range r.Env {
		if _, ok := c.lookupEnv(name); !ok {
			checked.unset = append(checked.unset, name)
		}
	}
	opts := newRegistry().languageOptions()
	opts.Path = dir
	opts.LookupEnv = func(name string) (string, bool) {
		value, ok := c.lookupEnv(name)
		if !ok && strings.HasPrefix(name, "NODEPOOL_") {
			return "1", true
		}
		return value, ok
	}
	loaded, diags := config.Load(opts)
	for _, d := range diags { // show the names of the files that the user gets
		if d.Subject != nil {
			d.Subject.Filename = filepath.Base(d.Subject.Filename)
		}
	}
	files := map[string]*hcl.File{}
	for name, f := range loaded.Files {
		files[filepath.Base(name)] = f
	}
	for _, d := range diags {
		if d.Summary == hookNotFound && d.Severity == hcl.DiagError { // relative to the directory of the output, and perhaps on another machine
			d.Severity = hcl.DiagWarning
			checked.notCompared = "Not compared with " + filepath.Base(in.Name) + ": a hook was not found."
		}
	}
	if diags.HasErrors() {
		if in.Options.Plain {
			inYAML(diags, files, in, r)
		} else { // without repetition, an attribute has no single place in the YAML
			in.Options.Plain = true
			if plain, err := convert.Convert(in); err == nil {
				if _, err := c.check(in, plain); err != nil {
					return checked, err
				}
			}
		}
		c.diagnostics(&diagnosed{diags, files})
		return checked, hint(errors.New("the translation is not a valid configuration of npctl; nothing was written"),
			"correct the values in the YAML")
	}
	if len(diags) > 0 {
		c.diagnostics(&diagnosed{diags, files})
	}
	if checked.notCompared != "" {
		return checked, nil
	}
	checked.comparison, err = compareConverted(in, r, loaded.Desired, opts.LookupEnv)
	if err == nil {
		err = checked.comparison.err()
	}
	if err != nil && c.allowDifferences {
		checked.notCompared, err = text.Line(err.Error()), nil
	}
	if err != nil {
		return checked, hint(err, differencesHint)
	}
	return checked, nil
}
