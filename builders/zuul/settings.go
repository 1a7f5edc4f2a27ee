package zuul

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/block"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// settings is the decoded block.
type settings struct {
	root      *url.URL // root address, to which api/ is appended
	tenant    string   // or ""
	project   string
	branch    string
	pipelines []string
	trusted   []string
	job       string
	imageName string
	artifacts map[string]wanted // by format

	token     tokenSource
	tls       tlsFiles
	newest    int // number of builds to list
	timeout   time.Duration
	sizeLimit int64
	local     bool // artifacts may be on this host
	secrets   []string
}

// wanted selects the artifact that is the file of a format.
type wanted struct{ kind, name string }

type tlsFiles struct{ ca, cert, key string }

// formatName keeps a format from being a path.
var formatName = regexp.MustCompile(`^[a-z0-9][a-z0-9.]{0,31}$`)

func read(config cty.Value, baseDir string, s schema.Block) (settings, error) {
	b, err := block.Read(config, s)
	if err != nil {
		return settings{}, err
	}
	root, tenant, err := parseAddress(b.String("api_url"))
	if err != nil {
		return settings{}, err
	}
	if tenant, err = oneTenant(tenant, b.String("tenant")); err != nil {
		return settings{}, err
	}
	timeout, err1 := b.Duration("api_timeout")
	newest, err2 := strconv.Atoi(b.String("poll_builds"))
	size, err3 := strconv.ParseInt(b.String("max_size_gb"), 10, 32)
	token, err4 := readToken(b, baseDir)
	plain, _ := config.UnmarkDeep()
	artifacts, err5 := readArtifacts(plain)
	tls, err6 := readTLS(plain, baseDir)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return settings{}, err
	}
	return settings{
		root: root, tenant: tenant, project: b.String("project"), branch: b.String("branch"), job: b.String("job"),
		pipelines: b.Strings("pipelines"), trusted: b.Strings("trusted_pipelines"), imageName: b.String("image_name"),
		artifacts: artifacts, token: token, tls: tls, newest: newest, timeout: timeout, sizeLimit: size << 30, local: b.Bool("local_artifacts"), secrets: b.Secrets(),
	}, nil
}

func oneTenant(inAddress, written string) (string, error) {
	if inAddress != "" && written != "" && inAddress != written {
		return "", fmt.Errorf("api_url belongs to tenant %q, but tenant is %q: correct one of them", inAddress, written)
	}
	return cmp.Or(inAddress, written), nil
}

func readArtifacts(config cty.Value) (map[string]wanted, error) {
	found := map[string]wanted{}
	for label, value := range config.GetAttr("artifact").AsValueMap() {
		format := resources.ImageFormat(label)
		b, err := block.Read(value, artifactBlock())
		if err != nil {
			return nil, err
		}
		if !formatName.MatchString(format) {
			return nil, fmt.Errorf("the label of artifact %q is not an image format: write one such as \"raw\" or \"qcow2\"", label)
		}
		if _, twice := found[format]; twice {
			return nil, fmt.Errorf("there are two artifact blocks for format %s: remove one of them", format)
		}
		found[format] = wanted{kind: b.String("type"), name: b.String("name")}
	}
	if len(found) == 0 {
		return nil, errors.New("there is no artifact block: write one such as artifact \"qcow2\" {}")
	}
	return found, nil
}

func readTLS(config cty.Value, baseDir string) (tlsFiles, error) {
	value := config.GetAttr("tls")
	if value.IsNull() {
		return tlsFiles{}, nil
	}
	b, err := block.Read(value, tlsBlock())
	if err != nil {
		return tlsFiles{}, err
	}
	files := tlsFiles{absolute(baseDir, b.String("ca")), absolute(baseDir, b.String("cert")), absolute(baseDir, b.String("key"))}
	if (files.cert == "") != (files.key == "") {
		return tlsFiles{}, errors.New("tls: cert and key belong together: write both or none")
	}
	return files, nil
}

func absolute(base, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}
