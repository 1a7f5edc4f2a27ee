package config

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// imageAttributes are common to images that npctl builds and images that it downloads.
var imageAttributes = []schema.Attribute{
	{Name: "formats", Type: texts, Default: noTexts,
		Doc: "Formats to create in addition to the formats of the providers. npctl adds the latter automatically."},
	{Name: "keep_formats", Type: texts, Default: noTexts, Doc: "Formats of files that npctl keeps despite `delete_after_upload`."},
	{Name: "delete_after_upload", Type: cty.Bool, Default: no,
		Doc: "Whether npctl deletes the file of a format after its upload to all providers that use it."},
	{Name: "keep", Type: cty.Number, Default: cty.NumberIntVal(2), Min: minimum(1), Check: schema.CheckWhole,
		Doc: "Number of newest ready builds to keep."},
	{Name: "pause", Type: cty.Bool, Default: no, Doc: "Whether builds are paused. Existing builds are kept and uploaded."},
	{Name: "prevent_destroy", Type: cty.Bool, Default: no,
		Doc: "Whether npctl rejects a plan that would delete the image with all its builds. This also applies after the block is removed."},
	{Name: "properties", Type: textMap, Default: noTextsM, Class: schema.AppliedToNew,
		Doc: "Properties of uploads. The provider's own properties override them."},
	{Name: "tags", Type: texts, Default: noTexts, Class: schema.AppliedToNew, Doc: "Tags of uploads, in addition to the provider's own."},
}

// loginAttributes are the attributes of a resources.Login.
func loginAttributes(class schema.Class, username, pythonPath, connectionType cty.Value) []schema.Attribute {
	return []schema.Attribute{
		{Name: "username", Type: cty.String, Class: class, Default: username, Doc: "User to log in as."},
		{Name: "python_path", Type: cty.String, Class: class, Default: pythonPath, Doc: "Python interpreter for Ansible; with `auto`, Ansible searches for it."},
		{Name: "shell_type", Type: cty.String, Class: class, Doc: "Shell type for Ansible, such as `sh`, `cmd` or `powershell`."},
		{Name: "connection_type", Type: cty.String, Class: class, Default: connectionType,
			OneOf: []string{"ssh", "winrm", "network_cli", "kubectl", "project", "namespace", "local", "psrp", "netconf", "httpapi"},
			Doc:   "Connection type for Ansible."},
		{Name: "connection_port", Type: cty.Number, Class: class, Check: schema.CheckPort,
			Doc: "Port to connect to. The default is 5986 for `winrm` and `psrp`, and 22 for all other types."},
	}
}

// imageLogin applies to the next build, upload and node; existing ones keep their login.
var imageLogin = loginAttributes(schema.AppliedToNew, cty.StringVal("zuul"), cty.StringVal("auto"), cty.StringVal("ssh"))

var diskimageBlock = schema.Block{
	Doc: "An image that a builder creates. References to a block with `for_each` have the form `diskimage.name[\"key\"]`.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "abstract", Type: cty.Bool, Default: no, Doc: "Whether the block is only a parent of other images and npctl never builds it."},
		{Name: "parent", Type: schema.ImageRef,
			Doc: "Image from which the block inherits the attributes that it does not set, such as `diskimage.base`. Maps are merged, `elements` of the builder are appended to those of the parent, all other attributes of the block override the parent's."},
		{Name: "rebuild_age", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("24h"),
			Doc: "Age of the newest ready build at which npctl builds the image again; `\"0s\"` means never by age."},
		{Name: "build_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("8h"),
			Doc: "Time limit of a build; `\"0s\"` means no limit."},
	}, imageAttributes, imageLogin),
}

var builderBlock = schema.Block{Doc: "How npctl builds the image. The label is the kind of builder. There is exactly one, here or in a parent."}

// zuulBuilder is the kind of the builder that downloads zuul_images. Its schema is part of the zuul_image block.
const zuulBuilder = "zuul"

var zuulImageBlock = schema.Block{
	Doc: "An image that a Zuul job builds. npctl queries Zuul for new successful builds, downloads the files of their artifacts, and uploads and keeps them in the same way as builds of a diskimage.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "build_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("4h"),
			Doc: "Time limit of the download of one build; `\"0s\"` means no limit."},
	}, imageAttributes, imageLogin),
}
