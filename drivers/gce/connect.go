package gce

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// Cloud is one region of one project.
type Cloud struct {
	cloudkit.CloseIdle

	project string
	region  string
	zones   []string // of the region
	api     *calls
	names   *names
	recent  cloudkit.RecentList

	shortages drivers.Shortages
}

var (
	_ drivers.Cloud    = (*Cloud)(nil)
	_ drivers.Resolver = (*Cloud)(nil)
	_ drivers.Locator  = (*Cloud)(nil)
	_ drivers.Sweeper  = (*Cloud)(nil)
	_ drivers.Console  = (*Cloud)(nil)
)

// open finds Google's application default credentials, and verifies them, the project and the region with one call.
func open(ctx context.Context, env drivers.Env, settings providerSettings) (drivers.Cloud, error) {
	api, idle, err := connect(ctx, env, settings)
	if err != nil {
		return nil, err
	}
	c := &Cloud{project: settings.Project, region: settings.Region, CloseIdle: idle, api: api, names: newNames(api, settings.Region)}
	region, err := api.region(ctx, settings.Region)
	if cloudkit.IsMissing(err) {
		return nil, c.unknownRegion(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	for _, zone := range region.Zones {
		c.zones = append(c.zones, base(zone))
	}
	slices.Sort(c.zones)
	return c, nil
}

// connect returns the calls of an authorized client. Its transport sends each call once.
func connect(ctx context.Context, env drivers.Env, settings providerSettings) (*calls, func(), error) {
	used, closeIdle := cloudkit.Transport(env, nil)
	lasting := context.WithoutCancel(ctx) // also requests tokens later
	authorized, err := drivers.Reauthorize(func() (http.RoundTripper, error) {
		return htransport.NewTransport(lasting, used, option.WithScopes(compute.CloudPlatformScope), option.WithUserAgent("npctl"), option.WithTelemetryDisabled())
	})
	if err != nil {
		return nil, nil, drivers.Rejectf("no usable Google credentials; set GOOGLE_APPLICATION_CREDENTIALS or run gcloud auth application-default login: %w", err)
	}
	options := []option.ClientOption{option.WithHTTPClient(&http.Client{Transport: authorized}), option.WithTelemetryDisabled()}
	if settings.Endpoint != "" {
		options = append(options, option.WithEndpoint(strings.TrimSuffix(settings.Endpoint, "/")+"/"))
	}
	service, err := compute.NewService(lasting, options...)
	if err != nil {
		return nil, nil, drivers.Rejectf("open Compute Engine: %w", err)
	}
	return newCalls(service, settings.Project), closeIdle, nil
}

// unknownRegion completes the error of a region that does not exist.
func (c *Cloud) unknownRegion(ctx context.Context, missing error) error {
	all, err := c.api.regions(ctx)
	if err != nil || slices.Contains(all, c.region) { // the project does not exist
		return missing
	}
	return &drivers.UnknownName{Attribute: "region", Value: c.region, Detail: "no such region", Near: drivers.Suggestions(c.region, all)}
}

// Location implements drivers.Locator.
func (c *Cloud) Location() string { return fmt.Sprintf("project %s, region %s", c.project, c.region) }

// base returns the last part of a URL or path, which is a name.
func base(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
