// Package config reads the configuration: HCL files become resources.Desired.
//
// Load goes through these steps, each in files of its own, and reports every mistake of all of them in one run:
//
//  1. files.go, nesting.go: find, limit and parse the files.
//  2. variables.go, varvalues.go: decide the value of every variable. A later source wins over an earlier one: default,
//     NPCTL_VAR_name, *.auto.vars.hcl in the order of their names, -var-file in the order given, -var in the order given.
//  3. scope.go: evaluate locals, for_each and names of top-level blocks in the order of what they refer to.
//  4. body.go, setting.go, complete.go: decode every body against a schema.Block. There is one decoder for the blocks of
//     the language (core*.go) and those of drivers, builders and stores.
//  5. settings.go, labels.go, images.go, inherit.go, providers.go, pools.go: make resources of what was decoded.
//  6. rules.go: check what only shows across blocks.
//
// Sensitive values carry a cty mark from where they come in to where Desired is made. Diagnostics never show them, see
// redact.go.
package config
