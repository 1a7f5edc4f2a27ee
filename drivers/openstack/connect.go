package openstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Service types of the catalog, by their current names.
const (
	serviceCompute = "compute"
	serviceImage   = "image"
	serviceNetwork = "network"
	serviceVolume  = "block-storage"
)

// Cloud is one project in one region of an OpenStack.
type Cloud struct {
	env          drivers.Env
	log          *slog.Logger
	entry        entry
	imageFormat  string
	provider     *gophercloud.ProviderClient
	project      string // id
	compute      *gophercloud.ServiceClient
	microversion microversion
	names        names
	attached     attached

	mu      sync.Mutex
	clients map[string]*gophercloud.ServiceClient // guarded by mu
}

var (
	_ drivers.Cloud      = (*Cloud)(nil)
	_ drivers.ImageStore = (*Cloud)(nil)
	_ drivers.Resolver   = (*Cloud)(nil)
	_ drivers.Locator    = (*Cloud)(nil)
	_ drivers.Sweeper    = (*Cloud)(nil)
	_ drivers.Console    = (*Cloud)(nil)
)

// open authenticates and reads the compute API version: two or three calls.
func open(ctx context.Context, env drivers.Env, e entry, config cty.Value) (*Cloud, error) {
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	c := &Cloud{env: env, log: env.Log, entry: e, clients: map[string]*gophercloud.ServiceClient{}}
	c.imageFormat = resources.ImageFormat(firstOf(stringAttr(config, "image_format"), strings.ToLower(e.imageFormat), uploadFormats()[0]))
	if !slices.Contains(uploadFormats(), c.imageFormat) {
		return nil, fmt.Errorf("%w: image format %q of cloud %q%s", drivers.ErrRejected, c.imageFormat, e.name, suggestionText(c.imageFormat, uploadFormats()))
	}
	if err := c.login(ctx); err != nil {
		return nil, err
	}
	compute, err := c.service(serviceCompute)
	if err != nil {
		return nil, err
	}
	c.compute = compute
	if c.microversion, err = c.negotiate(ctx); err != nil {
		return nil, err
	}
	c.compute.Microversion = c.microversion.String()
	c.names.init(c)
	return c, nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// Location implements drivers.Locator. It does not depend on credentials or the name of the entry.
func (c *Cloud) Location() string {
	at := c.entry.auth.IdentityEndpoint
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		at = u.Host
	}
	return fmt.Sprintf("project %s, region %s of %s", c.project, c.entry.region, at)
}

func (c *Cloud) login(ctx context.Context) error {
	client, err := openstack.NewClient(c.entry.auth.IdentityEndpoint)
	if err != nil {
		return fmt.Errorf("%w: auth_url of cloud %q: %w", drivers.ErrRejected, c.entry.name, err)
	}
	client.HTTPClient = http.Client{Transport: c.entry.newTransport(c.env.WrapTransport, c.log)}
	client.UserAgent.Prepend("npctl")
	c.provider = client
	if err := openstack.Authenticate(ctx, client, c.entry.auth); err != nil {
		return c.loginError(err)
	}
	c.project = projectOf(client.GetAuthResult())
	if c.project == "" {
		return fmt.Errorf("%w: cloud %q: the credentials name no project; write project_name or project_id into its auth section",
			drivers.ErrRejected, c.entry.name)
	}
	return nil
}

func (c *Cloud) loginError(err error) error {
	doing := fmt.Sprintf("log in to cloud %q at %s", c.entry.name, c.entry.auth.IdentityEndpoint)
	if gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		return fmt.Errorf("%s: %w: Keystone rejects the credentials; check user, password, project and domains of the entry in clouds.yaml and secure.yaml",
			doing, drivers.ErrRejected)
	}
	var missing gophercloud.ErrMissingInput
	if errors.As(err, &missing) {
		return fmt.Errorf("%s: %w: %w", doing, drivers.ErrRejected, err)
	}
	return wrap(doing, err)
}

// projectOf returns the ID of a token's project.
func projectOf(result gophercloud.AuthResult) string {
	type projecter interface {
		ExtractProject() (*tokens.Project, error)
	}
	r, ok := result.(projecter)
	if !ok {
		return ""
	}
	project, err := r.ExtractProject()
	if err != nil || project == nil {
		return ""
	}
	return project.ID
}

// service returns the client of a service. It makes no call: endpoints come from the token's catalog.
func (c *Cloud) service(kind string) (*gophercloud.ServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.clients[kind]; ok {
		return client, nil
	}
	url, err := c.endpoint(kind)
	if err != nil {
		return nil, err
	}
	client := &gophercloud.ServiceClient{ProviderClient: c.provider, Endpoint: withAPIVersion(kind, url, c.project), Type: kind}
	c.clients[kind] = client
	return client, nil
}

// hasService reports whether the catalog has a service in this region.
func (c *Cloud) hasService(kind string) bool {
	_, err := c.service(kind)
	return err == nil
}

func (c *Cloud) endpoint(kind string) (string, error) {
	if url := c.entry.overrides[kind]; url != "" {
		return url, nil
	}
	for _, name := range serviceNames(kind) {
		// The service type as the only alias keeps gophercloud from selecting an old volume service.
		url, err := c.provider.EndpointLocator(gophercloud.EndpointOpts{
			Type: name, Aliases: []string{name}, Region: c.entry.region, Availability: c.entry.availability,
		})
		if err == nil && url != "" && url != "/" {
			return url, nil
		}
	}
	return "", fmt.Errorf("%w: cloud %q has no %s service in region %q%s", drivers.ErrRejected, c.entry.name, kind, c.entry.region, c.regionHint())
}

// serviceNames returns the catalog types of a service, the preferred one first.
func serviceNames(kind string) []string {
	switch kind {
	case serviceVolume:
		return []string{"volumev3", "block-storage", "block-store", "volume"}
	case serviceNetwork:
		return []string{"network", "networking"}
	default:
		return []string{kind}
	}
}

// regionHint lists the regions of the cloud, to help with a mistyped region.
func (c *Cloud) regionHint() string {
	type cataloger interface {
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	}
	r, ok := c.provider.GetAuthResult().(cataloger)
	if !ok {
		return ""
	}
	catalog, err := r.ExtractServiceCatalog()
	if err != nil {
		return ""
	}
	var regions []string
	for _, service := range catalog.Entries {
		for _, e := range service.Endpoints {
			regions = append(regions, e.Region)
		}
	}
	if slices.Contains(regions, c.entry.region) {
		return ""
	}
	return suggestionText(c.entry.region, regions)
}

// withAPIVersion adds the API version of this driver if the catalog URL lacks it.
func withAPIVersion(kind, url, project string) string {
	url = strings.TrimRight(url, "/") + "/"
	if versionPath.MatchString(url) {
		return url
	}
	switch kind {
	case serviceCompute:
		return url + "v2.1/"
	case serviceNetwork:
		return url + "v2.0/"
	case serviceImage:
		return url + "v2/"
	default:
		return url + "v3/" + project + "/"
	}
}

var versionPath = regexp.MustCompile(`^\w+://[^/]+/(.*/)?v[0-9][0-9.]*/`)

// Close implements drivers.Cloud.
func (c *Cloud) Close() error {
	c.provider.HTTPClient.CloseIdleConnections()
	if c.entry.closed != nil {
		return c.entry.closed()
	}
	return nil
}
