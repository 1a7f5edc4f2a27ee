package zuul

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// Schema implements builders.Builder. It is the part of a zuul_image block that defines the source of the image.
func (*Builder) Schema() schema.Block {
	return schema.Block{
		Doc:        "Fetches images that a Zuul job has built. See builders/zuul.md.",
		Attributes: append(sourceAttributes(), fetchAttributes()...),
		Blocks: []schema.NestedBlock{
			{Name: "artifact", Label: "format", Min: 1, Schema: artifactBlock()},
			{Name: "tls", Max: 1, Schema: tlsBlock()},
		},
	}
}

// sourceAttributes returns the attributes that select builds.
func sourceAttributes() []schema.Attribute {
	texts := cty.List(cty.String)
	return []schema.Attribute{
		{Name: "api_url", Type: cty.String, Required: true, Class: schema.Replacing, Check: checkURL,
			Doc: "Base address of Zuul, as of its web pages."},
		{Name: "tenant", Type: cty.String, Class: schema.Replacing, Check: notEmpty,
			Doc: "Tenant of the job. Omit it when the address belongs to one tenant (a white label)."},
		{Name: "project", Type: cty.String, Required: true, Class: schema.Replacing, Check: notEmpty,
			Doc: "Short name of the project, such as `opendev/system-config`."},
		{Name: "branch", Type: cty.String, Class: schema.Replacing, Check: notEmpty, Doc: "Branch of the build; default is any."},
		{Name: "pipelines", Type: texts, Required: true, Class: schema.Replacing, Check: notEmpty,
			Doc: "Pipelines with the builds to use. npctl skips builds of unmerged changes, see `trusted_pipelines`."},
		{Name: "trusted_pipelines", Type: texts, Default: cty.ListValEmpty(cty.String), Class: schema.Replacing,
			Doc: "The subset of the pipelines with builds that are used even if they built an unmerged change."},
		{Name: "job", Type: cty.String, Required: true, Class: schema.Replacing, Check: notEmpty, Doc: "Name of the job."},
		{Name: "image_name", Type: cty.String, Class: schema.Replacing, Check: notEmpty,
			Doc: "The `image_name` that the artifacts' metadata must have, for jobs that build several images."},
	}
}

// fetchAttributes returns the attributes for requests and downloads.
func fetchAttributes() []schema.Attribute {
	whole := func(name, doc string, value int64) schema.Attribute {
		one := int64(1)
		return schema.Attribute{Name: name, Type: cty.Number, Default: cty.NumberIntVal(value), Min: &one, Check: checkWhole, Doc: doc}
	}
	return []schema.Attribute{
		{Name: "token", Type: cty.String, Sensitive: true,
			Doc: "Token for the API, if it requires one. At most one of `token`, `token_file` and `token_command` may be set."},
		{Name: "token_file", Type: cty.String, Check: checkFile,
			Doc: "File that contains the token, relative to the directory of the configuration. npctl reads it for each use."},
		{Name: "token_command", Type: cty.List(cty.String), Check: notEmpty,
			Doc: "Command that prints the token, run in the directory of the configuration with the clean environment of builders. npctl runs it for each use, also in `npctl plan`."},
		{Name: "poll_interval", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("5m"),
			Doc: "Time between two queries for new builds."},
		whole("poll_builds", "Number of newest builds that each query returns.", 20),
		{Name: "api_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("60s"), Doc: "Time limit of one API call."},
		whole("max_size_gb", "Maximum size of a fetched file in GiB, after decompression.", 100),
		{Name: "local_artifacts", Type: cty.Bool, Default: cty.False,
			Doc: "Whether addresses of artifacts, which the job chooses, and their redirects may refer to the host of npctl itself, to link-local addresses " +
				"and to metadata services of clouds. The host and port of Zuul are always allowed."},
	}
}

func artifactBlock() schema.Block {
	return schema.Block{
		Doc: "Selects the artifact of a build that is the file of a format. The label is the format after decompression, such as `qcow2`.",
		Attributes: []schema.Attribute{
			{Name: "type", Type: cty.String, Default: cty.StringVal("zuul_image"), Class: schema.Replacing, Check: notEmpty,
				Doc: "The `type` in the artifact's metadata."},
			{Name: "name", Type: cty.String, Class: schema.Replacing, Check: notEmpty, Doc: "Name of the artifact; default is any."},
		},
	}
}

func tlsBlock() schema.Block {
	return schema.Block{
		Doc: "Paths of PEM files for TLS with client certificates.",
		Attributes: []schema.Attribute{
			{Name: "ca", Type: cty.String, Required: true, Check: checkFile, Doc: "Certificates of the trusted authorities."},
			{Name: "cert", Type: cty.String, Check: checkFile, Doc: "Certificate of this client."},
			{Name: "key", Type: cty.String, Check: checkFile, Doc: "Key of this client."},
		},
	}
}

func notEmpty(v cty.Value) error {
	if v.Type() == cty.String && v.AsString() == "" {
		return errors.New("the text is empty")
	}
	if v.CanIterateElements() && v.LengthInt() == 0 {
		return errors.New("there must be at least one")
	}
	return nil
}

func checkFile(v cty.Value) error {
	if strings.ContainsAny(v.AsString(), "\x00\r\n") {
		return errors.New("the path has a line end or a null byte")
	}
	return notEmpty(v)
}

// mostWhole is the largest valid number, so that none overflows, including GiB in bytes.
const mostWhole = 1 << 20

func checkWhole(v cty.Value) error {
	n := v.AsBigFloat()
	if !n.IsInt() {
		return fmt.Errorf("%s is not a whole number", n.Text('g', 10))
	}
	if whole, _ := n.Int64(); whole > mostWhole {
		return fmt.Errorf("%s is too large: write %d at the most", n.Text('g', 10), mostWhole)
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
