// Command platforms type-checks a program for other operating systems. Unlike go build it compiles nothing, and skips the
// function bodies of other modules, so that it takes seconds.
//
//	go run ./test/platforms windows/amd64 darwin/arm64
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

const (
	program = "./cmd/npctl"
	module  = "github.com/npctl/npctl"
)

func main() {
	failed := false
	for _, platform := range os.Args[1:] {
		if err := check(platform); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", platform, err)
			failed = true
		}
	}
	if failed || len(os.Args) == 1 {
		os.Exit(1)
	}
}

// check loads the program with all packages that it imports, and returns the first errors of each package.
func check(platform string) error {
	system, processor, ok := strings.Cut(platform, "/")
	if !ok {
		return errors.New("want GOOS/GOARCH")
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes,
		Env:  append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
		ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
			if file != nil && !strings.HasPrefix(name, root+string(os.PathSeparator)) {
				dropBodies(file)
			}
			return file, err
		},
	}, program)
	if err != nil {
		return err
	}
	var errs []error
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if strings.HasPrefix(p.PkgPath, module) || len(p.Errors) > 0 && e.Kind != packages.TypeError {
				errs = append(errs, e)
			}
		}
	})
	return errors.Join(errs...)
}

// dropBodies removes the bodies of functions.
func dropBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
}
