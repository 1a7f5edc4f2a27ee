package zuul

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/resources"
)

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
