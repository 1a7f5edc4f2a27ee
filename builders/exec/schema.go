package exec

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/block"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Schema implements builders.Builder.
func (*Builder) Schema() schema.Block {
	strings, texts := cty.List(cty.String), cty.Map(cty.String)
	return schema.Block{
		Doc: doc,
		Attributes: []schema.Attribute{
			{
				Name: "command", Type: strings, Required: true, Class: schema.Replacing, Check: checkCommand,
				Doc: "The program and its arguments, one string each; no shell is involved unless you name one (`[\"sh\", \"-c\", \"…\"]`). " +
					"A path with a slash starts at `working_dir`, anything else is looked up in `PATH`. It succeeds with exit status 0.",
			},
			{
				Name: "formats", Type: strings, Class: schema.AppliedToNew, Check: checkFormats,
				Default: cty.ListVal([]cty.Value{cty.StringVal("raw")}),
				Doc: "The formats the command can make. It is asked for those that are wanted; when it can make none of them, " +
					"it is asked for the first one, which npctl converts. Each is the extension of a file; `qcow` is taken for qcow2, `vpc` for vhd, `tar.gz` for tgz.",
			},
			{
				Name: "env", Type: texts, Class: schema.Replacing, Check: checkEnv,
				Doc: "Environment variables, over the clean environment that every builder gets.",
			},
			{
				Name: "secret_env", Type: texts, Class: schema.AppliedToNew, Sensitive: true, Check: checkEnv,
				Doc: "More environment variables, whose values are masked in logs and errors. A change rebuilds nothing.",
			},
			{
				Name: "working_dir", Type: cty.String, Class: schema.Replacing,
				Doc: "Where the command starts, relative to the directory of the configuration, which is the default.",
			},
			{
				Name: "inputs", Type: strings, Class: schema.InPlace,
				Doc: "Files whose content goes into the image, relative to the directory of the configuration: names, directories, or patterns " +
					"in which `*` stands for part of a name and `**` for any number of directories. A change in one of them rebuilds the image. " +
					"A program given by a relative path counts without being named.",
			},
			{
				Name: "stop_timeout", Type: cty.String, Class: schema.InPlace, Format: schema.FormatDuration, Default: cty.StringVal("30s"),
				Doc: "How long the command may take to clean up after SIGTERM, when the build is cancelled or takes too long, before it is killed.",
			},
		},
	}
}

const doc = "Runs any program that leaves image files. The environment tells it what is wanted: " +
	"`NPCTL_OUTPUT` (path of the files to make, without extension), `NPCTL_IMAGE_FORMATS` (extensions, separated by blanks), " +
	"`NPCTL_OUTPUT_DIR`, `NPCTL_IMAGE_NAME`, `NPCTL_BUILD_ID`, `NPCTL_CONFIG_DIR`, `NPCTL_TIMEOUT` (seconds, 0 for none) and " +
	"`TMPDIR` (its own, removed afterwards). See builders/exec.md."

func checkCommand(v cty.Value) error {
	if v.LengthInt() == 0 {
		return errors.New(`command is empty: write a program and its arguments, such as ["./build.sh"]`)
	}
	if first := v.AsValueSlice()[0]; first.IsNull() || strings.TrimSpace(first.AsString()) == "" {
		return errors.New(`command begins with an empty string: write a program first, such as ["./build.sh"]`)
	}
	return nil
}

// formatName keeps a format from being a path.
var formatName = regexp.MustCompile(`^[a-z0-9][a-z0-9.]{0,31}$`)

func checkFormats(v cty.Value) error {
	if v.LengthInt() == 0 {
		return errors.New(`formats is empty: write at least one, such as ["raw"]`)
	}
	extensions := map[string]string{} // by format
	for _, format := range v.AsValueSlice() {
		if format.IsNull() || !formatName.MatchString(format.AsString()) {
			return fmt.Errorf("format %#v is no file extension: write one such as \"raw\" or \"qcow2\"", format)
		}
		ext := format.AsString()
		if before, known := extensions[resources.ImageFormat(ext)]; known && before != ext {
			return fmt.Errorf("%q and %q are the same format: write one of them", before, ext)
		}
		extensions[resources.ImageFormat(ext)] = ext
	}
	return nil
}

func checkEnv(v cty.Value) error {
	return block.CheckVariables(v, func(name string) error {
		if strings.HasPrefix(name, "NPCTL_") {
			return fmt.Errorf("%s is set by npctl: choose a name without NPCTL_", name)
		}
		return nil
	})
}
