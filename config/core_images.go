package config

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// imageAttributes are common to images that npctl builds and images that it downloads.
var imageAttributes = []schema.Attribute{
	{Name: "formats", Type: texts, Default: noTexts,
		Doc: "Formats wanted beside those that providers need, which are added by themselves."},
	{Name: "keep_formats", Type: texts, Default: noTexts, Doc: "Formats whose files stay in spite of `delete_after_upload`."},
	{Name: "delete_after_upload", Type: cty.Bool, Default: no,
		Doc: "Whether the file of a format is deleted once it is in every provider that wants it."},
	{Name: "keep", Type: cty.Number, Default: cty.NumberIntVal(2), Min: minimum(1), Check: wholeNumber,
		Doc: "Number of newest ready builds that are kept."},
	{Name: "pause", Type: cty.Bool, Default: no, Doc: "Whether nothing new is made. What exists stays and is uploaded."},
	{Name: "prevent_destroy", Type: cty.Bool, Default: no,
		Doc: "Whether a plan that would delete the image with all its builds is refused, also after the block is gone."},
	{Name: "properties", Type: textMap, Default: noTextsM, Class: schema.AppliedToNew,
		Doc: "Properties of uploads. A provider's own are added over them."},
	{Name: "tags", Type: texts, Default: noTexts, Class: schema.AppliedToNew, Doc: "Tags of uploads. A provider's own are added."},
}

// loginAttributes define how a job logs in to a node.
func loginAttributes(class schema.Class, username, pythonPath, connectionType cty.Value) []schema.Attribute {
	return []schema.Attribute{
		{Name: "username", Type: cty.String, Class: class, Default: username, Doc: "User to log in as."},
		{Name: "python_path", Type: cty.String, Class: class, Default: pythonPath, Doc: "Python interpreter for Ansible; `auto` lets Ansible look for it."},
		{Name: "shell_type", Type: cty.String, Class: class, Doc: "Shell type for Ansible, such as `sh`, `cmd` or `powershell`."},
		{Name: "connection_type", Type: cty.String, Class: class, Default: connectionType,
			OneOf: []string{"ssh", "winrm", "network_cli", "kubectl", "project", "namespace", "local", "psrp", "netconf", "httpapi"},
			Doc:   "How Ansible connects."},
		{Name: "connection_port", Type: cty.Number, Class: class, Check: portNumber,
			Doc: "Port to connect to; 22 when not written, 5986 for `winrm`."},
	}
}

// imageLogin applies to the next build, upload and node; existing ones keep their login.
var imageLogin = loginAttributes(schema.AppliedToNew, cty.StringVal("zuul"), cty.StringVal("auto"), cty.StringVal("ssh"))

var diskimageBlock = schema.Block{
	Doc: "An image that a builder makes. A block with `for_each` is referred to as `diskimage.name[\"key\"]`.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "abstract", Type: cty.Bool, Default: no, Doc: "Whether the block is only a parent of others and nothing is built from it."},
		{Name: "parent", Type: schema.ImageRef,
			Doc: "Image whose attributes are taken where this block does not write them, such as `diskimage.base`. Maps are merged, `elements` of the builder are appended to the parent's, everything else is replaced."},
		{Name: "rebuild_age", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("24h"),
			Doc: "Age of the newest ready build at which the next one starts; `\"0s\"` means never by age."},
		{Name: "build_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("8h"),
			Doc: "Time after which a build is stopped; `\"0s\"` means never."},
	}, imageAttributes, imageLogin),
}

var builderBlock = schema.Block{Doc: "How the image is made. The label is the kind of builder. There is exactly one, here or in a parent."}

// zuulBuilder is the kind of the builder that downloads zuul_images. Its schema is part of the zuul_image block.
const zuulBuilder = "zuul"

var zuulImageBlock = schema.Block{
	Doc: "An image that a Zuul job builds. npctl asks Zuul for new successful builds, fetches the files named by their artifacts, and uploads and keeps them as those of a diskimage.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "build_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("4h"),
			Doc: "Time after which the fetching of one build is stopped; `\"0s\"` means never."},
	}, imageAttributes, imageLogin),
}
