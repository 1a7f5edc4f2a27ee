package dib

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/block"
	"github.com/npctl/npctl/resources/schema"
)

// Schema implements builders.Builder.
func (*Builder) Schema() schema.Block {
	return schema.Block{
		Doc: "Makes an image with diskimage-builder. What it makes itself are " + strings.Join(native, ", ") +
			"; npctl converts to other formats. See builders/dib.md.",
		Attributes: append(contents(), buildAttributes()...),
	}
}

// contents returns the attributes that define the content of the image.
func contents() []schema.Attribute {
	list, texts := cty.List(cty.String), cty.Map(cty.String)
	return []schema.Attribute{
		{
			Name: "elements", Type: list, Required: true, Class: schema.Replacing, Check: checkElements,
			Doc: "The elements that make up the image, in the order of the command line, such as `[\"debian-minimal\", \"vm\", \"simple-init\"]`.",
		},
		{
			Name: "release", Type: cty.String, Class: schema.Replacing,
			Doc: "The distribution's release, such as `bookworm`; sets `DIB_RELEASE`.",
		},
		{
			Name: "packages", Type: list, Class: schema.Replacing, Check: checkWords,
			Doc: "Packages to install beyond those of the elements (`-p`).",
		},
		{
			Name: "env", Type: texts, Class: schema.Replacing, Check: checkEnv,
			Doc: "Environment variables of the build, such as `DIB_DISTRIBUTION_MIRROR`. They win over those npctl sets.",
		},
		{
			Name: "secret_env", Type: texts, Class: schema.AppliedToNew, Sensitive: true, Check: checkEnv,
			Doc: "More environment variables, whose values are masked in logs, errors and kept manifests. A change rebuilds nothing. " +
				"diskimage-builder itself writes the value of every `DIB_*` variable into the image, under `/etc/dib-manifests`.",
		},
		{
			Name: "extra_args", Type: list, Class: schema.Replacing,
			Doc: "Further arguments of the command, before `-o`, such as `[\"-n\"]` or `[\"--mkfs-options\", \"-i 16384\"]`.",
		},
		{
			Name: "element_paths", Type: list, Class: schema.AppliedToNew,
			Doc: "Directories with elements of your own, relative to the directory of the configuration; sets `ELEMENTS_PATH`. " +
				"A change of any file of an element that is used, or that one of those depends on, rebuilds the image; moving them does not.",
		},
	}
}

// buildAttributes returns the attributes that configure the build.
func buildAttributes() []schema.Attribute {
	return []schema.Attribute{
		{
			Name: "command", Type: cty.String, Class: schema.AppliedToNew, Default: cty.StringVal(defaultCommand), Check: checkCommand,
			Doc: "The program, with arguments that come first if need be, split by a shell's quoting rules. It gets disk-image-create's command line.",
		},
		{
			Name: "qemu_img_options", Type: cty.String, Class: schema.AppliedToNew, Default: cty.StringVal("compat=0.10"),
			Doc: "Passed as `--qemu-img-options` when qcow2 is made; an empty string leaves it out. The default is what Nodepool passes and every cloud can read.",
		},
		{
			Name: "checksum", Type: cty.Bool, Class: schema.InPlace, Default: cty.True,
			Doc: "Let diskimage-builder leave `.md5` and `.sha256` files beside the images (`--checksum`). npctl computes its own in any case, so `false` saves time.",
		},
		{
			Name: "trace", Type: cty.Bool, Class: schema.InPlace, Default: cty.True,
			Doc: "Trace every command into the build log (`-x`).",
		},
		{
			Name: "image_cache", Type: cty.String, Class: schema.InPlace,
			Doc: "Directory in which diskimage-builder keeps downloads between builds, relative to the directory of the configuration; " +
				"`~/.cache/image-create` when not written.",
		},
		{
			Name: "tmp_dir", Type: cty.String, Class: schema.InPlace,
			Doc: "Directory in which each build gets a temporary directory of its own, relative to the directory of the configuration. " +
				"It takes three times the data in the image. Beside the image when not written.",
		},
		{
			Name: "stop_timeout", Type: cty.String, Class: schema.InPlace, Format: schema.FormatDuration, Default: cty.StringVal("2m"),
			Doc: "How long diskimage-builder may take to unmount and clean up after SIGTERM, when the build is cancelled or takes too long, before it is killed.",
		},
	}
}

// elementName also keeps an element from being parsed as an option.
var elementName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

func checkElements(v cty.Value) error {
	if v.LengthInt() == 0 {
		return errors.New(`elements is empty: write at least a distribution's, such as ["debian-minimal"]`)
	}
	for _, element := range v.AsValueSlice() {
		if element.IsNull() || !elementName.MatchString(element.AsString()) {
			return fmt.Errorf("%#v is no name of an element: write the name of its directory; arguments go to extra_args", element)
		}
	}
	return nil
}

func checkWords(v cty.Value) error {
	for _, word := range v.AsValueSlice() {
		if word.IsNull() || word.AsString() == "" || strings.ContainsAny(word.AsString(), ", \t\n") {
			return fmt.Errorf("%#v is no name of a package: write one name in each string", word)
		}
	}
	return nil
}

func checkCommand(v cty.Value) error {
	_, err := split(v.AsString())
	return err
}

func checkEnv(v cty.Value) error {
	return block.CheckVariables(v, func(name string) error {
		if name == "TMPDIR" || name == "TMP_DIR" {
			return fmt.Errorf("%s is set by npctl, to a directory that it can clear up safely: use tmp_dir to choose where that lies", name)
		}
		return nil
	})
}
