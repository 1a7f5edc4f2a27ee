package openstack

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Cloud is one project in one region of an OpenStack. It manages servers itself; the parts of the other services are
// types of their own.
type Cloud struct {
	*session
	*imageStore
	compute      *gophercloud.ServiceClient
	microversion microversion
	names        *names
	offers       *offerResolver
	network      *networking
	attached     attached

	networkLimits, volumeLimits drivers.Optional
}

var (
	_ drivers.Cloud      = (*Cloud)(nil)
	_ drivers.ImageStore = (*Cloud)(nil)
	_ drivers.Resolver   = (*Cloud)(nil)
	_ drivers.Locator    = (*Cloud)(nil)
	_ drivers.Sweeper    = (*Cloud)(nil)
	_ drivers.Console    = (*Cloud)(nil)
	_ drivers.Adopter    = (*Cloud)(nil)
)

// open authenticates and reads the compute API version: two or three calls.
func open(ctx context.Context, env drivers.Env, e entry, settings sharedSettings) (*Cloud, error) {
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	format := resources.ImageFormat(cmp.Or(settings.ImageFormat, strings.ToLower(e.imageFormat), uploadFormats()[0]))
	if !slices.Contains(uploadFormats(), format) {
		return nil, fmt.Errorf("%w: image format %q of cloud %q%s", drivers.ErrRejected, format, e.name, suggestionText(format, uploadFormats()))
	}
	s := &session{log: env.Log, entry: e, clients: map[string]*gophercloud.ServiceClient{}}
	if err := s.login(ctx, env.WrapTransport); err != nil {
		return nil, err
	}
	compute, err := s.service(serviceCompute)
	if err != nil {
		return nil, err
	}
	version, err := s.computeVersion(ctx, compute.Endpoint)
	if err != nil {
		return nil, err
	}
	compute.Microversion = version.String()
	names := newNames(s, compute)
	return &Cloud{
		session: s, imageStore: &imageStore{s, format}, compute: compute, microversion: version, names: names,
		offers: &offerResolver{names, version}, network: &networking{s, names},
	}, nil
}

// Location implements drivers.Locator. It does not depend on credentials or the name of the entry.
func (c *Cloud) Location() string {
	at := c.entry.auth.IdentityEndpoint
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		at = u.Host
	}
	return fmt.Sprintf("project %s, region %s of %s", c.project, c.entry.region, at)
}

// Close implements drivers.Cloud.
func (c *Cloud) Close() error {
	c.provider.HTTPClient.CloseIdleConnections()
	if c.entry.closed != nil {
		return c.entry.closed()
	}
	return nil
}
