package openstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// Service types of the catalog, by their current names.
const (
	serviceCompute = "compute"
	serviceImage   = "image"
	serviceNetwork = "network"
	serviceVolume  = "block-storage"
)

// session is a login to one project and the clients of its services.
type session struct {
	log      *slog.Logger
	entry    entry
	provider *gophercloud.ProviderClient
	project  string // ID

	mu      sync.Mutex
	clients map[string]*gophercloud.ServiceClient // guarded by mu
}

func (s *session) login(ctx context.Context, wrapTransport func(http.RoundTripper) http.RoundTripper) error {
	client, err := openstack.NewClient(s.entry.auth.IdentityEndpoint)
	if err != nil {
		return fmt.Errorf("%w: auth_url of cloud %q: %w", drivers.ErrRejected, s.entry.name, err)
	}
	client.HTTPClient = http.Client{Transport: s.entry.newTransport(wrapTransport, s.log)}
	client.UserAgent.Prepend("npctl")
	s.provider = client
	if err := openstack.Authenticate(ctx, client, s.entry.auth); err != nil {
		return s.loginError(err)
	}
	s.project = projectOf(client.GetAuthResult())
	if s.project == "" {
		return fmt.Errorf("%w: cloud %q: the credentials name no project; write project_name or project_id into its auth section",
			drivers.ErrRejected, s.entry.name)
	}
	return nil
}

func (s *session) loginError(err error) error {
	doing := fmt.Sprintf("log in to cloud %q at %s", s.entry.name, s.entry.auth.IdentityEndpoint)
	if gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		return fmt.Errorf("%s: %w: Keystone rejects the credentials; check user, password, project and domains of the entry in clouds.yaml and secure.yaml",
			doing, drivers.ErrRejected)
	}
	if _, ok := errors.AsType[gophercloud.ErrMissingInput](err); ok {
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
func (s *session) service(kind string) (*gophercloud.ServiceClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client, ok := s.clients[kind]; ok {
		return client, nil
	}
	url, err := s.endpoint(kind)
	if err != nil {
		return nil, err
	}
	client := &gophercloud.ServiceClient{ProviderClient: s.provider, Endpoint: withAPIVersion(kind, url, s.project), Type: kind}
	s.clients[kind] = client
	return client, nil
}

// hasService reports whether the catalog has a service in this region.
func (s *session) hasService(kind string) bool {
	_, err := s.service(kind)
	return err == nil
}

func (s *session) endpoint(kind string) (string, error) {
	if url := s.entry.overrides[kind]; url != "" {
		return url, nil
	}
	for _, name := range serviceNames(kind) {
		// The service type as the only alias keeps gophercloud from selecting an old volume service.
		url, err := s.provider.EndpointLocator(gophercloud.EndpointOpts{
			Type: name, Aliases: []string{name}, Region: s.entry.region, Availability: s.entry.availability,
		})
		if err == nil && url != "" && url != "/" {
			return url, nil
		}
	}
	return "", fmt.Errorf("%w: cloud %q has no %s service in region %q%s", drivers.ErrRejected, s.entry.name, kind, s.entry.region, s.regionHint())
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
func (s *session) regionHint() string {
	type cataloger interface {
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	}
	r, ok := s.provider.GetAuthResult().(cataloger)
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
	if slices.Contains(regions, s.entry.region) {
		return ""
	}
	return suggestionText(s.entry.region, regions)
}

// withAPIVersion adds the API version of this driver if the catalog URL lacks it.
func withAPIVersion(kind, url, project string) string {
	url = strings.TrimRight(url, "/") + "/"
	if versionPath().MatchString(url) {
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

var versionPath = drivers.Pattern(`^\w+://[^/]+/(.*/)?v[0-9][0-9.]*/`)

// deleteIn deletes one object of Neutron or Cinder; a missing object is no error.
func (s *session) deleteIn(ctx context.Context, service, path, id, doing string) error {
	client, err := s.service(service)
	if err != nil {
		return err
	}
	_, err = client.Delete(ctx, client.ServiceURL(path, id), nil)
	return cloudkit.UnlessMissing(wrap(doing+" "+id, err))
}

// microversion is the minor part of a compute API version: 79 is 2.79. Zero means a service without microversions.
type microversion int

// The microversions that affect this driver.
const (
	withAutoNetworks microversion = 37 // networks are required, at least "auto"
	withTags         microversion = 52 // tags at creation
	withVolumeType   microversion = 67 // boot volumes of a selected type
	// 2.69 shows servers in cells that are down, with status UNKNOWN; older versions omit them from lists as if they
	// were gone.
	newestWanted microversion = 79
)

func (m microversion) String() string {
	if m == 0 {
		return ""
	}
	return fmt.Sprintf("2.%d", int(m))
}

// computeVersion returns the newest version of the compute API that both sides support.
func (s *session) computeVersion(ctx context.Context, root string) (microversion, error) {
	if before, _, ok := strings.Cut(root, "/"+s.project); ok {
		root = before + "/"
	}
	var answer struct {
		Version struct {
			Version string `json:"version"`
			Min     string `json:"min_version"`
		} `json:"version"`
	}
	_, err := s.provider.Request(ctx, "GET", root, &gophercloud.RequestOpts{JSONResponse: &answer, OkCodes: []int{200, 300}})
	if gophercloud.ResponseCodeIs(err, 404) { // proxies that hide the version document
		return 0, nil
	}
	if err != nil {
		return 0, wrap("read versions of the compute service", err)
	}
	var newest, oldest int
	if read, _ := fmt.Sscanf(answer.Version.Version, "2.%d", &newest); read != 1 {
		return 0, nil // unknown document, so no version is requested
	}
	_, _ = fmt.Sscanf(answer.Version.Min, "2.%d", &oldest)
	return max(min(microversion(newest), newestWanted), microversion(oldest)), nil
}
