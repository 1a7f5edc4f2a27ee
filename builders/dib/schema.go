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
		Doc: "Creates an image with diskimage-builder, in the formats " + strings.Join(native, ", ") +
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
			Doc: "Release of the distribution, such as `bookworm`; sets `DIB_RELEASE`.",
		},
		{
			Name: "packages", Type: list, Class: schema.Replacing, Check: checkWords,
			Doc: "Packages to install beyond those of the elements (`-p`).",
		},
		{
			Name: "env", Type: texts, Class: schema.Replacing, Check: checkEnv,
			Doc: "Environment variables of the build, such as `DIB_DISTRIBUTION_MIRROR`. They override those that npctl sets.",
		},
		{
			Name: "secret_env", Type: texts, Class: schema.AppliedToNew, Sensitive: true, Check: checkEnv,
			Doc: "More environment variables, whose values are masked in logs, errors and kept manifests. A change does not rebuild the image. " +
				"diskimage-builder itself writes the value of every `DIB_*` variable into the image, under `/etc/dib-manifests`.",
		},
		{
			Name: "extra_args", Type: list, Class: schema.Replacing,
			Doc: "Additional arguments of the command, before `-o`, such as `[\"-n\"]` or `[\"--mkfs-options\", \"-i 16384\"]`.",
		},
		{
			Name: "element_paths", Type: list, Class: schema.AppliedToNew,
			Doc: "Directories with custom elements, relative to the directory of the configuration; sets `ELEMENTS_PATH`. " +
				"A change of a file of a used element, or of an element that it depends on, rebuilds the image; moving the files does not.",
		},
	}
}

// buildAttributes returns the attributes that configure the build.
func buildAttributes() []schema.Attribute {
	return []schema.Attribute{
		{
			Name: "command", Type: cty.String, Class: schema.AppliedToNew, Default: cty.StringVal(defaultCommand), Check: checkCommand,
			Doc: "The program and its first arguments, split by the quoting rules of a shell. It receives the command line of disk-image-create.",
		},
		{
			Name: "qemu_img_options", Type: cty.String, Class: schema.AppliedToNew, Default: cty.StringVal("compat=0.10"),
			Doc: "Passed as `--qemu-img-options` for qcow2; an empty string omits the option. The default is the value that Nodepool passes and every cloud can read.",
		},
		{
			Name: "checksum", Type: cty.Bool, Class: schema.InPlace, Default: cty.True,
			Doc: "Whether diskimage-builder writes `.md5` and `.sha256` files beside the images (`--checksum`). npctl always computes its own checksums, so `false` saves time.",
		},
		{
			Name: "trace", Type: cty.Bool, Class: schema.InPlace, Default: cty.True,
			Doc: "Trace every command into the build log (`-x`).",
		},
		{
			Name: "image_cache", Type: cty.String, Class: schema.InPlace,
			Doc: "Directory in which diskimage-builder keeps downloads between builds, relative to the directory of the configuration; " +
				"default is `~/.cache/image-create`.",
		},
		{
			Name: "tmp_dir", Type: cty.String, Class: schema.InPlace,
			Doc: "Directory in which each build creates its temporary directory, relative to the directory of the configuration. " +
				"It needs three times the size of the image's data. Default is the directory of the image.",
		},
		{
			Name: "stop_timeout", Type: cty.String, Class: schema.InPlace, Format: schema.FormatDuration, Default: cty.StringVal("2m"),
			Doc: "Time that diskimage-builder has to unmount and clean up after SIGTERM, when the build is canceled or exceeds its time limit, before it is killed.",
		},
	}
}

// elementName also keeps an element from being parsed as an option.
var elementName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

func checkElements(v cty.Value) error {
	if v.LengthInt() == 0 {
		return errors.New(`elements is empty: write at least the element of a distribution, such as ["debian-minimal"]`)
	}
	for _, element := range v.AsValueSlice() {
		if element.IsNull() || !elementName.MatchString(element.AsString()) {
			return fmt.Errorf("%#v is not an element name: write the name of its directory; arguments belong in extra_args", element)
		}
	}
	return nil
}

func checkWords(v cty.Value) error {
	for _, word := range v.AsValueSlice() {
		if word.IsNull() || word.AsString() == "" || strings.ContainsAny(word.AsString(), ", \t\n") {
			return fmt.Errorf("%#v is not a package name: write one name in each string", word)
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
			return fmt.Errorf("%s is set by npctl to a directory that it can clean up safely: set tmp_dir to choose its location", name)
		}
		return nil
	})
}
