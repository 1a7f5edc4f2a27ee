package config

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// This file defines the schemas of settings, labels and variables. Those of images are in core_images.go, those of
// providers and their blocks in core_providers.go.

var npctlBlock = withFirst(
	schema.Of[resources.Settings]("Settings of npctl itself. The block is optional; all settings have defaults. There is at most one.", map[string]schema.Check{"gearman.servers": serverAddresses}),
	schema.Attribute{Name: "required_version", Type: cty.String, Doc: "Versions of npctl that accept this configuration, such as `\">= 0.1, < 2.0\"`."})

var stateBlock = schema.Block{
	Doc: "The store of the records. The label is the kind of store. The default is `bolt`, a file in the directory of the configuration.",
}

var labelBlock = withDisruption(schema.Of[resources.Label]("The name by which a request asks for a node. Offers of pools define how npctl creates its nodes.", disruptionChecks))

var variableBlock = schema.Block{
	Doc: "A value from outside the configuration. References to it have the form `var.name`.",
	Attributes: []schema.Attribute{
		{Name: "type", Type: cty.DynamicPseudoType,
			Doc: "Type of the value, such as `string`, `list(string)` or `object({ size = optional(number, 2) })`. The default is the type of `default` if that is a string, number or bool, and else any type."},
		{Name: "default", Type: cty.DynamicPseudoType, Doc: "Value if no other source sets one. A variable without a default needs a value from another source."},
		{Name: "description", Type: cty.String, Doc: "Purpose of the variable."},
		{Name: "nullable", Type: cty.Bool, Default: yes, Doc: "Whether the value may be null. If not, null stands for the default."},
		{Name: "sensitive", Type: cty.Bool, Default: no, Doc: "Whether npctl never prints the value."},
	},
}

var validationBlock = schema.Block{
	Doc: "A rule for the value of the variable. There may be several.",
	Attributes: []schema.Attribute{
		{Name: "condition", Type: cty.Bool, Required: true, Doc: "Condition for a valid value. It may refer to all variables."},
		{Name: "error_message", Type: cty.String, Required: true, Doc: "Error message if the condition is false."},
	},
}

var outputBlock = schema.Block{
	Doc: "A value for other programs, which `npctl output` prints.",
	Attributes: []schema.Attribute{
		{Name: "value", Type: cty.DynamicPseudoType, Required: true, Doc: "Value of any type. It may refer to everything that a block may refer to."},
		{Name: "description", Type: cty.String, Doc: "Purpose of the output."},
		{Name: "sensitive", Type: cty.Bool, Default: no, Doc: "Whether npctl masks the value. Only `npctl output -raw NAME` prints it."},
	},
}

var checkBlock = schema.Block{
	Doc: "Statements about the configuration, or about plans. A false statement about the configuration is a warning of `validate`, `plan` and `apply`, and an error of `npctl validate -strict`. A statement that refers to `plan`, `effect`, `cost`, `desired` or `state` is about plans; see [Rules](review.md#rules).",
	Attributes: []schema.Attribute{
		{Name: "severity", Type: cty.String, Default: cty.StringVal(string(RuleWarning)), OneOf: []string{string(RuleError), string(RuleWarning)}, Doc: "With 'error', a plan for which a statement is false is not applied."},
	},
}

var assertBlock = schema.Block{
	Doc: "A statement about the configuration. There is at least one.",
	Attributes: []schema.Attribute{
		{Name: "condition", Type: cty.Bool, Required: true, Doc: "The statement. It may refer to everything that a block may refer to, to outputs, and to the plan."},
		{Name: "error_message", Type: cty.String, Required: true, Doc: "Message if the condition is false."},
	},
}
