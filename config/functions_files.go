package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/npctl/npctl/internal/syntax"
	plaintext "github.com/npctl/npctl/internal/text"
)

// configDir is the absolute path of the configuration's directory. Relative paths in the configuration start there.
type configDir string

// fileReader reads files for functions and records them.
type fileReader struct {
	configDir
	shown    configDir // see Options.PathConfig
	boundary boundary
	inputs   *Inputs
}

// fileFunctions read files of limited size.
func (d fileReader) fileFunctions() map[string]function.Function {
	return map[string]function.Function{
		"file": stringFunction("path", d.fileText),
		"filebase64": stringFunction("path", func(path string) (string, error) {
			raw, err := d.fileBytes(path)
			return base64.StdEncoding.EncodeToString(raw), err
		}),
		"filesha256": stringFunction("path", d.fileDigest),
		"fileexists": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}},
			Type:   function.StaticReturnType(cty.Bool),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				full := d.absolute(args[0].AsString())
				if err := d.boundary.check(full); err != nil {
					return cty.UnknownVal(cty.Bool), function.NewArgError(0, err)
				}
				d.inputs.recordFile(full)
				info, err := os.Stat(full)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return cty.UnknownVal(cty.Bool), function.NewArgError(0, err)
				}
				return cty.BoolVal(err == nil && info.Mode().IsRegular()), nil
			},
		}),
		"fileset": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "pattern", Type: cty.String}},
			Type:   function.StaticReturnType(cty.Set(cty.String)),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				return d.fileSet(args[0].AsString(), args[1].AsString())
			},
		}),
	}
}

func (d configDir) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(string(d), path)
}

// absolute returns the path of the file to read.
func (d fileReader) absolute(path string) string {
	if below, err := filepath.Rel(string(d.shown), path); d.shown != "" && filepath.IsAbs(path) && err == nil && filepath.IsLocal(below) {
		path = below
	}
	return d.configDir.absolute(path)
}

func (d fileReader) fileBytes(path string) ([]byte, error) {
	full := d.absolute(path)
	if err := d.boundary.check(full); err != nil {
		return nil, err
	}
	d.inputs.recordFile(full)
	info, err := os.Stat(full)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", full)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", full)
	}
	raw, err := readLimited(full, maxFileBytes)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxFileBytes {
		return nil, fmt.Errorf("%s has %s, more than the limit of %s", full, plaintext.Bytes(info.Size()), plaintext.Bytes(maxFileBytes))
	}
	return raw, nil
}

func (d fileReader) fileText(path string) (string, error) {
	raw, err := d.fileBytes(path)
	if err == nil && !utf8.Valid(raw) {
		err = fmt.Errorf("%s is not text in UTF-8; use filebase64", path)
	}
	return string(raw), err
}

func (d fileReader) fileDigest(path string) (string, error) {
	raw, err := d.fileBytes(path)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

// fileSet lists the regular files below a directory that match a pattern of one level, such as "*.sh".
func (d fileReader) fileSet(dir, pattern string) (cty.Value, error) {
	base := d.absolute(dir)
	if err := d.boundary.check(filepath.Dir(filepath.Join(base, pattern))); err != nil {
		return cty.UnknownVal(cty.Set(cty.String)), function.NewArgError(0, err)
	}
	d.inputs.recordMatches(filepath.Join(base, pattern))
	matches, err := filepath.Glob(filepath.Join(base, pattern))
	if err != nil {
		return cty.UnknownVal(cty.Set(cty.String)), function.NewArgErrorf(1, "the pattern is not valid")
	}
	slices.Sort(matches)
	var found []cty.Value
	for _, match := range matches {
		if info, err := os.Stat(match); err != nil || !info.Mode().IsRegular() || d.boundary.check(match) != nil {
			continue
		}
		relative, err := filepath.Rel(base, match)
		if err != nil {
			return cty.UnknownVal(cty.Set(cty.String)), err
		}
		if found = append(found, cty.StringVal(filepath.ToSlash(relative))); len(found) > maxFiles {
			return cty.UnknownVal(cty.Set(cty.String)), fmt.Errorf("more than %d files match", maxFiles)
		}
	}
	if len(found) == 0 {
		return cty.SetValEmpty(cty.String), nil
	}
	return cty.SetVal(found), nil
}

// envFunction reads an environment variable: env("NAME") fails when it is not set, env("NAME", "default") does not.
func envFunction(lookupEnv func(string) (string, bool)) function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String, AllowNull: true},
		Type:     function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name := args[0].AsString()
			if lookupEnv != nil {
				if value, ok := lookupEnv(name); ok {
					return cty.StringVal(value), nil
				}
			}
			if len(args) > 1 {
				return args[1], nil
			}
			if lookupEnv == nil {
				return cty.UnknownVal(cty.String), function.NewArgErrorf(0, "there is no environment here; add a default: env(%q, \"\")", name)
			}
			return cty.UnknownVal(cty.String), function.NewArgErrorf(0, "the environment variable %s is not set; set it, or add a default: env(%q, \"\")", name, name)
		},
	})
}

// templateFunction renders a file as a template over an object of variables.
func templateFunction(dir fileReader, functions map[string]function.Function, m *meter) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "vars", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return render(dir, args[0].AsString(), args[1], functions, m)
		},
	})
}

func render(dir fileReader, path string, vars cty.Value, functions map[string]function.Function, m *meter) (cty.Value, error) {
	unknown := cty.UnknownVal(cty.String)
	if t := vars.Type(); !t.IsObjectType() && !t.IsMapType() {
		return unknown, function.NewArgErrorf(1, "the variables of a template are an object, such as { name = \"x\" }")
	}
	text, err := dir.fileText(path)
	if err != nil {
		return unknown, function.NewArgError(0, err)
	}
	expr, diags := syntax.NewParser(syntax.Shape{}).Template([]byte(text), path)
	if expr == nil {
		return unknown, function.NewArgError(0, diags)
	}
	for _, traversal := range expr.Variables() {
		if _, ok := vars.AsValueMap()[traversal.RootName()]; !ok {
			return unknown, function.NewArgErrorf(1, "the template uses the variable %q, which the call does not pass", traversal.RootName())
		}
	}
	m.attach(expr)
	value, diags := expr.Value(&hcl.EvalContext{Variables: vars.AsValueMap(), Functions: functions})
	if diags.HasErrors() {
		return unknown, function.NewArgError(0, diags)
	}
	converted, err := convertTo(value, cty.String)
	if err != nil {
		return unknown, function.NewArgErrorf(0, "the result of the template is not a string: %s", err)
	}
	if fault := tooLarge(converted); fault != "" {
		return unknown, errors.New(fault)
	}
	return converted, nil
}
