package zuul

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Schema implements builders.Builder. It is the part of a zuul_image block that defines the source of the image.
func (*Builder) Schema() schema.Block {
	return schema.Of[settings]("Fetches images that a Zuul job has built. See builders/zuul.md.", map[string]schema.Check{
		"api_url": checkURL, "poll_builds": checkSize, "max_size_gb": checkSize,
	})
}

// settings is the decoded block.
type settings struct {
	APIURL           string        `config:"api_url,required,replacing" doc:"Base address of Zuul, as of its web pages."`
	Tenant           string        `config:"tenant,replacing,nonempty" doc:"Tenant of the job. Omit it when the address belongs to one tenant (a white label)."`
	Project          string        `config:"project,required,replacing,nonempty" doc:"Short name of the project, such as 'opendev/system-config'."`
	Branch           string        `config:"branch,replacing,nonempty" doc:"Branch of the build; default is any."`
	Pipelines        []string      `config:"pipelines,required,replacing,nonempty" doc:"Pipelines with the builds to use. npctl skips builds of unmerged changes, see 'trusted_pipelines'."`
	TrustedPipelines []string      `config:"trusted_pipelines,replacing" default:"" doc:"The subset of the pipelines with builds that are used even if they built an unmerged change."`
	Job              string        `config:"job,required,replacing,nonempty" doc:"Name of the job."`
	ImageName        string        `config:"image_name,replacing,nonempty" doc:"The 'image_name' that the artifacts' metadata must have, for jobs that build several images."`
	Token            string        `config:"token,sensitive" doc:"Token for the API, if it requires one. At most one of 'token', 'token_file' and 'token_command' may be set."`
	TokenFile        string        `config:"token_file,path" doc:"File that contains the token, relative to the directory of the configuration. npctl reads it for each use."`
	TokenCommand     []string      `config:"token_command,nonempty" doc:"Command that prints the token, run in the directory of the configuration with the clean environment of builders. npctl runs it for each use, also in 'npctl plan'."`
	PollInterval     time.Duration `config:"poll_interval" default:"5m" doc:"Time between two queries for new builds."`
	PollBuilds       int64         `config:"poll_builds" default:"20" min:"1" doc:"Number of newest builds that each query returns."`
	APITimeout       time.Duration `config:"api_timeout" default:"60s" doc:"Time limit of one API call."`
	MaxSizeGB        int64         `config:"max_size_gb" default:"100" min:"1" doc:"Maximum size of a fetched file in GiB, after decompression."`
	LocalArtifacts   bool          `config:"local_artifacts" default:"false" doc:"Whether addresses of artifacts, which the job chooses, and their redirects may refer to the host of npctl itself, to link-local addresses and to metadata services of clouds. The host and port of Zuul are always allowed."`

	Artifacts []wanted `config:"artifact" label:"format" min:"1" doc:"Selects the artifact of a build that is the file of a format. The label is the format after decompression, such as 'qcow2'."`
	TLS       tlsFiles `config:"tls" doc:"Paths of PEM files for TLS with client certificates."`

	root      *url.URL          // root address, to which api/ is appended
	tenant    string            // of the address or the block, or ""
	artifacts map[string]wanted // by format
	token     tokenSource
	secrets   []string
}

// wanted selects the artifact that is the file of a format.
type wanted struct {
	Format string `config:",label"`
	Type   string `config:"type,replacing,nonempty" default:"zuul_image" doc:"The 'type' in the artifact's metadata."`
	Name   string `config:"name,replacing,nonempty" doc:"Name of the artifact; default is any."`
}

type tlsFiles struct {
	CA   string `config:"ca,required,path" doc:"Certificates of the trusted authorities."`
	Cert string `config:"cert,path" doc:"Certificate of this client."`
	Key  string `config:"key,path" doc:"Key of this client."`
}

// mostWhole is the largest valid number, so that none overflows, including GiB in bytes.
const mostWhole = 1 << 20

func checkSize(v cty.Value) error {
	if whole, _ := v.AsBigFloat().Int64(); whole > mostWhole {
		return fmt.Errorf("%d is too large: write %d at the most", whole, mostWhole)
	}
	return nil
}

func checkURL(v cty.Value) error {
	parsed, err := url.Parse(v.AsString())
	switch {
	case err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "":
		return fmt.Errorf("%q is not a URL; write it like \"https://zuul.example.com/\"", v.AsString())
	case parsed.User != nil:
		return errors.New("the address contains a user name; use the attributes for credentials")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return fmt.Errorf("%q has a query or fragment; write only the base address", v.AsString())
	}
	return nil
}

// formatName keeps a format from being a path.
var formatName = regexp.MustCompile(`^[a-z0-9][a-z0-9.]{0,31}$`)

func (b *Builder) read(config cty.Value, baseDir string) (s settings, err error) {
	if s.secrets, err = builders.Decode(config, b.Schema(), &s); err != nil {
		return settings{}, err
	}
	root, tenant, err := parseAddress(s.APIURL)
	if err != nil {
		return settings{}, err
	}
	if s.tenant, err = oneTenant(tenant, s.Tenant); err != nil {
		return settings{}, err
	}
	s.root = root
	for _, path := range []*string{&s.TokenFile, &s.TLS.CA, &s.TLS.Cert, &s.TLS.Key} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(baseDir, *path)
		}
	}
	var err1, err2 error
	s.token, err1 = s.tokenSource(baseDir)
	s.artifacts, err2 = byFormat(s.Artifacts)
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		err = errors.New("tls: cert and key belong together: write both or none")
	}
	return s, errors.Join(err1, err2, err)
}

func oneTenant(inAddress, written string) (string, error) {
	if inAddress != "" && written != "" && inAddress != written {
		return "", fmt.Errorf("api_url belongs to tenant %q, but tenant is %q: correct one of them", inAddress, written)
	}
	return cmp.Or(inAddress, written), nil
}

func byFormat(artifacts []wanted) (map[string]wanted, error) {
	found := map[string]wanted{}
	for _, a := range artifacts {
		format := resources.ImageFormat(a.Format)
		if !formatName.MatchString(format) {
			return nil, fmt.Errorf("the label of artifact %q is not an image format: write one such as \"raw\" or \"qcow2\"", a.Format)
		}
		if _, twice := found[format]; twice {
			return nil, fmt.Errorf("there are two artifact blocks for format %s: remove one of them", format)
		}
		found[format] = a
	}
	if len(found) == 0 {
		return nil, errors.New("there is no artifact block: write one such as artifact \"qcow2\" {}")
	}
	return found, nil
}
