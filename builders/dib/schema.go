package dib

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/resources/schema"
)

// Schema implements builders.Builder.
func (*Builder) Schema() schema.Block {
	return schema.Of[settings]("Creates an image with diskimage-builder, in the formats "+strings.Join(native, ", ")+
		"; npctl converts to other formats. See builders/dib.md.", map[string]schema.Check{
		"elements": checkElements, "packages": checkWords, "env": checkEnv, "secret_env": checkEnv, "command": checkCommand,
	})
}

// settings is the decoded block.
type settings struct {
	Elements       []string          `config:"elements,required,replacing,appended" doc:"The elements that make up the image, in the order of the command line, such as '[\"debian-minimal\", \"vm\", \"simple-init\"]'."`
	Release        string            `config:"release,replacing" doc:"Release of the distribution, such as 'bookworm'; sets 'DIB_RELEASE'."`
	Packages       []string          `config:"packages,replacing" doc:"Packages to install beyond those of the elements ('-p')."`
	Env            map[string]string `config:"env,replacing" doc:"Environment variables of the build, such as 'DIB_DISTRIBUTION_MIRROR'. They override the variables of npctl."`
	SecretEnv      map[string]string `config:"secret_env,new,sensitive" doc:"More environment variables, with values that npctl masks in logs, errors and kept manifests. A change does not rebuild the image. diskimage-builder itself writes the value of every 'DIB_*' variable into the image, under '/etc/dib-manifests'."`
	ExtraArgs      []string          `config:"extra_args,replacing" doc:"Additional arguments of the command, before '-o', such as '[\"-n\"]' or '[\"--mkfs-options\", \"-i 16384\"]'."`
	ElementPaths   []string          `config:"element_paths,new" doc:"Directories with custom elements, relative to the directory of the configuration; sets 'ELEMENTS_PATH'. A change of a file of a used element, or of an element that it depends on, rebuilds the image; moving the files does not."`
	Command        string            `config:"command,new" default:"disk-image-create" doc:"The program and its first arguments, split by the quoting rules of a shell. It receives the command line of disk-image-create."`
	QEMUImgOptions string            `config:"qemu_img_options,new" default:"compat=0.10" doc:"Passed as '--qemu-img-options' for qcow2; an empty string omits the option. The default is the value that Nodepool passes and every cloud can read."`
	Checksum       bool              `config:"checksum" default:"true" doc:"Whether diskimage-builder writes '.md5' and '.sha256' files beside the images ('--checksum'). npctl always computes its own checksums, so 'false' saves time."`
	Trace          bool              `config:"trace" default:"true" doc:"Trace every command into the build log ('-x')."`
	ImageCache     string            `config:"image_cache" doc:"Directory in which diskimage-builder keeps downloads between builds, relative to the directory of the configuration; default is '~/.cache/image-create'."`
	TmpDir         string            `config:"tmp_dir" doc:"Directory in which each build creates its temporary directory, relative to the directory of the configuration. It needs three times the size of the image's data. Default is the directory of the image."`
	StopTimeout    time.Duration     `config:"stop_timeout" default:"2m" doc:"Time that diskimage-builder has to unmount and clean up after SIGTERM, when the build is canceled or exceeds its time limit, before it is killed."`

	command []string // Command, split
	secrets []string
}

// elementName also keeps an element from being parsed as an option.
var elementName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

func checkElements(v cty.Value) error {
	if v.LengthInt() == 0 {
		return errors.New(`elements is empty: write at least the element of a distribution, such as ["debian-minimal"]`)
	}
	for _, element := range v.AsValueSlice() {
		if element.IsNull() || !elementName.MatchString(element.AsString()) {
			return fmt.Errorf("%s is not an element name: write the name of its directory; arguments belong in extra_args", schema.Quoted(element))
		}
	}
	return nil
}

func checkWords(v cty.Value) error {
	for _, word := range v.AsValueSlice() {
		if word.IsNull() || word.AsString() == "" || strings.ContainsAny(word.AsString(), ", \t\n") {
			return fmt.Errorf("%s is not a package name: write one name in each string", schema.Quoted(word))
		}
	}
	return nil
}

func checkCommand(v cty.Value) error {
	_, err := split(v.AsString())
	return err
}

var checkEnv = builders.CheckVariables(func(name string) error {
	if name == "TMPDIR" || name == "TMP_DIR" {
		return fmt.Errorf("%s is set by npctl to a directory that it can clean up safely: set tmp_dir to choose its location", name)
	}
	return nil
})

// read decodes a block and makes its paths absolute.
func (b *Builder) read(config cty.Value, baseDir string) (s settings, err error) {
	if s.secrets, err = builders.Decode(config, b.Schema(), &s); err != nil {
		return settings{}, err
	}
	for i, path := range s.ElementPaths {
		if !filepath.IsAbs(path) {
			s.ElementPaths[i] = filepath.Join(baseDir, path)
		}
	}
	for _, path := range []*string{&s.ImageCache, &s.TmpDir} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(baseDir, *path)
		}
	}
	s.command, err = split(s.Command)
	return s, err
}

// split splits a command by the quoting rules of a shell, as Nodepool does.
func split(command string) ([]string, error) {
	words, err := shellquote.Split(command)
	if err != nil {
		return nil, fmt.Errorf("command %q: %w", command, err)
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("command %q is empty: write a program, such as disk-image-create, or omit the attribute", command)
	}
	return words, nil
}

func checkPaths(dirs []string) error {
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil {
			return fmt.Errorf("element_paths: %w: correct the path or remove it", err)
		} else if !info.IsDir() {
			return fmt.Errorf("element_paths: %s is not a directory: write the directory that contains the elements", dir)
		}
	}
	return nil
}
