// Package config reads the configuration: it converts HCL files to resources.Desired.
//
// Load (load.go) has the following steps, each in a type of its own, and reports the errors of all of them in one run:
//
//  1. files.go, shape.go, override.go: find and read the files, parse both syntaxes to one kind of body (internal/syntax),
//     and merge the override files.
//  2. variables.go, varvalues.go: determine the value of each variable. A later source overrides an earlier one: default,
//     NPCTL_VAR_name, *.auto.vars.hcl in the order of their names, -var-file in the order given, -var in the order given.
//  3. graph.go, scope.go: evaluate locals, for_each and names of top-level blocks in the order of their references. A
//     module block is one vertex; modules.go reads its directory and performs steps 2 and 3 for each instance.
//  4. body.go, setting.go, complete.go: decode every body against a schema.Block. One decoder reads the blocks of
//     the language (core*.go) and those of drivers, builders and stores.
//  5. settings.go, labels.go, images.go, inherit.go, providers.go, pools.go: convert the decoded bodies to resources.
//  6. rules.go: check rules that concern several blocks.
//
// Sensitive values carry a cty mark from their source until Desired is created. Diagnostics never show them, see
// redact.go.
package config
