package exec

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Schema implements builders.Builder.
func (*Builder) Schema() schema.Block {
	env := builders.CheckVariables(builders.ReservedVariable)
	return schema.Of[settings](doc, map[string]schema.Check{
		"command": checkCommand, "formats": checkFormats, "env": env, "secret_env": env,
	})
}

// settings is the decoded block.
type settings struct {
	Command     []string          `config:"command,required,replacing" doc:"The program and its arguments, one string each; no shell is involved unless it is the program ('[\"sh\", \"-c\", \"…\"]'). A path with a slash is relative to 'working_dir'; any other name is searched in 'PATH'. Exit status 0 means success."`
	Formats     []string          `config:"formats,new" default:"raw" doc:"The formats that the command can create. npctl requests the ones it needs; if the command can create none of them, npctl requests the first one and converts it. Each is the extension of a file; 'qcow' means qcow2, 'vpc' vhd and 'tar.gz' tgz."`
	Env         map[string]string `config:"env,replacing" doc:"Environment variables, in addition to the clean environment of every builder."`
	SecretEnv   map[string]string `config:"secret_env,new,sensitive" doc:"More environment variables, with values that npctl masks in logs and errors. A change does not rebuild the image."`
	WorkingDir  string            `config:"working_dir,replacing" doc:"Working directory of the command, relative to the directory of the configuration, which is the default."`
	Inputs      []string          `config:"inputs" doc:"Files that become part of the image, relative to the directory of the configuration: names, directories, or patterns in which '*' matches part of a name and '**' any number of directories. A change of one of them rebuilds the image. A program with a relative path is always included."`
	StopTimeout time.Duration     `config:"stop_timeout" default:"30s" doc:"Time that the command has to clean up after SIGTERM, when the build is canceled or exceeds its time limit, before it is killed."`

	secrets []string
}

const doc = "Runs any program that creates image files. The environment contains the job: " +
	"`NPCTL_OUTPUT` (path of the files to create, without extension), `NPCTL_IMAGE_FORMATS` (extensions, separated by spaces), " +
	"`NPCTL_OUTPUT_DIR`, `NPCTL_IMAGE_NAME`, `NPCTL_BUILD_ID`, `NPCTL_CONFIG_DIR`, `NPCTL_TIMEOUT` (seconds, 0 for none) and " +
	"`TMPDIR` (removed after the build). See builders/exec.md."

func checkCommand(v cty.Value) error {
	if v.LengthInt() == 0 {
		return errors.New(`command is empty: write a program and its arguments, such as ["./build.sh"]`)
	}
	if first := v.AsValueSlice()[0]; first.IsNull() || strings.TrimSpace(first.AsString()) == "" {
		return errors.New(`the first string of command is empty: write a program, such as ["./build.sh"]`)
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
			return fmt.Errorf("format %s is not a file extension: write one such as \"raw\" or \"qcow2\"", schema.Quoted(format))
		}
		ext := format.AsString()
		if before, known := extensions[resources.ImageFormat(ext)]; known && before != ext {
			return fmt.Errorf("%q and %q are the same format: write one of them", before, ext)
		}
		extensions[resources.ImageFormat(ext)] = ext
	}
	return nil
}
