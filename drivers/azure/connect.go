package azure

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// Cloud is one resource group of one subscription.
type Cloud struct {
	*imageStore
	*account
	cloudkit.CloseIdle
	log       *slog.Logger
	names     *names
	recent    recentList
	faults    cloudkit.Table[string, fault] // by virtual machine
	shortages drivers.Shortages
	quotas    drivers.Optional
	warnPower sync.Once
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

// account has the clients of a subscription and the place of npctl's objects in it.
type account struct {
	subscription string
	group        string
	location     string

	http        http.RoundTripper // for addresses that contain their authorization
	rest        *rest
	vms         *armcompute.VirtualMachinesClient
	disks       *armcompute.DisksClient
	images      *armcompute.ImagesClient
	usage       *armcompute.UsageClient
	skus        *armcompute.ResourceSKUsClient
	marketplace *armcompute.VirtualMachineImagesClient
	galleries   *armcompute.GalleryImageVersionsClient
	shared      *armcompute.SharedGalleryImageVersionsClient
	community   *armcompute.CommunityGalleryImageVersionsClient
}

// clouds are the clouds by the values of the attribute cloud.
func clouds(name string) cloud.Configuration {
	switch name {
	case "government":
		return cloud.AzureGovernment
	case "china":
		return cloud.AzureChina
	default:
		return cloud.AzurePublic
	}
}

// configuration returns the cloud of a provider. The SDK reads AZURE_AUTHORITY_HOST itself unless the configuration has
// a login service.
func (s providerSettings) configuration() (cloud.Configuration, error) {
	if s.Endpoint == "" {
		return clouds(s.Cloud), nil
	}
	if u, err := url.Parse(s.Endpoint); err != nil || u.Scheme != "https" || u.Host == "" {
		return cloud.Configuration{}, fmt.Errorf("%w: endpoint %q: write a URL such as https://management.local.azurestack.external", drivers.ErrRejected, s.Endpoint)
	}
	endpoint := strings.TrimSuffix(s.Endpoint, "/")
	return cloud.Configuration{
		ActiveDirectoryAuthorityHost: os.Getenv("AZURE_AUTHORITY_HOST"),
		Services:                     map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: {Endpoint: endpoint, Audience: endpoint}},
	}, nil
}

// open finds credentials as every Azure tool does, and verifies them with one call, which reads the resource group.
func open(ctx context.Context, env drivers.Env, settings providerSettings) (drivers.Cloud, error) {
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	subscription := cmp.Or(settings.SubscriptionID, os.Getenv("AZURE_SUBSCRIPTION_ID"))
	if subscription == "" {
		return nil, drivers.Rejectf("no subscription; set subscription_id in the provider block or AZURE_SUBSCRIPTION_ID")
	}
	where, err := settings.configuration()
	if err != nil {
		return nil, drivers.Unsent(err)
	}
	used, closeIdle := cloudkit.Transport(env, func(t *http.Transport) { t.MaxIdleConnsPerHost = maxWriters })
	options := azcore.ClientOptions{Cloud: where, Transport: roundTripper{used}, Retry: policy.RetryOptions{MaxRetries: -1}, Telemetry: policy.TelemetryOptions{ApplicationID: "npctl"}}
	newest, err := drivers.NewRenewable(func() (azcore.TokenCredential, error) {
		return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: settings.Endpoint != ""})
	})
	if err != nil {
		return nil, drivers.Rejectf("Azure credentials: %w", err)
	}
	credential := &credential{newest}
	renewing := options
	renewing.PerCallPolicies = []policy.Policy{credential}
	a := &account{subscription: subscription, group: settings.ResourceGroup, http: used}
	if err := a.connect(credential, &arm.ClientOptions{ClientOptions: renewing, DisableRPRegistration: true}); err != nil {
		return nil, drivers.Rejectf("%w", err)
	}
	if err := a.verify(ctx, settings.Location); err != nil {
		closeIdle()
		return nil, err
	}
	return &Cloud{account: a, imageStore: &imageStore{account: a, format: settings.ImageFormat}, log: env.Log, CloseIdle: closeIdle, names: newNames(a)}, nil
}

// connect makes the clients.
func (a *account) connect(credential azcore.TokenCredential, options *arm.ClientOptions) error {
	client, err := arm.NewClient("npctl", "v1.0.0", credential, options)
	if err != nil {
		return err
	}
	a.rest = &rest{pipeline: client.Pipeline(), endpoint: client.Endpoint()}
	factory, err := armcompute.NewClientFactory(a.subscription, credential, options)
	if err != nil {
		return err
	}
	a.vms, a.disks, a.images = factory.NewVirtualMachinesClient(), factory.NewDisksClient(), factory.NewImagesClient()
	a.usage, a.skus, a.marketplace = factory.NewUsageClient(), factory.NewResourceSKUsClient(), factory.NewVirtualMachineImagesClient()
	a.galleries, a.shared, a.community = factory.NewGalleryImageVersionsClient(), factory.NewSharedGalleryImageVersionsClient(), factory.NewCommunityGalleryImageVersionsClient()
	return nil
}

// place is a resource group or a location.
type place struct {
	Name     string `json:"name"`
	Location string `json:"location"`
}

// verify reads the resource group and determines the location.
func (a *account) verify(ctx context.Context, location string) error {
	var group place
	groups := "/subscriptions/" + url.PathEscape(a.subscription) + "/resourceGroups"
	err := wrap("read resource group "+a.group, a.rest.send(ctx, http.MethodGet, groups+"/"+url.PathEscape(a.group), groupsVersion, nil, &group))
	if cloudkit.IsMissing(err) {
		all, listErr := list[place](ctx, a.rest, groups, groupsVersion)
		if listErr != nil {
			return err
		}
		return &drivers.UnknownName{Attribute: "resource_group", Value: a.group, Detail: "no such resource group in subscription " + a.subscription, Near: drivers.Suggestions(a.group, placeNames(all))}
	}
	if err != nil {
		return err
	}
	a.location = cmp.Or(location, group.Location)
	return nil
}

func placeNames(all []place) (result []string) {
	for _, p := range all {
		result = append(result, p.Name)
	}
	return result
}

// id returns the ID of an object in the resource group.
func (a *account) id(kind, name string) string {
	return "/subscriptions/" + a.subscription + "/resourceGroups/" + a.group + "/providers/" + kind + "/" + name
}

// network returns the path of a list of Microsoft.Network in a resource group.
func (a *account) network(group, kind string) string {
	return "/subscriptions/" + url.PathEscape(a.subscription) + "/resourceGroups/" + url.PathEscape(group) + "/providers/Microsoft.Network/" + kind
}

// Location implements drivers.Locator.
func (c *Cloud) Location() string {
	return fmt.Sprintf("subscription %s, resource group %s, location %s", c.subscription, c.group, c.location)
}

// roundTripper is a transport as a client of the SDK.
type roundTripper struct{ transport http.RoundTripper }

// Do implements policy.Transporter.
func (r roundTripper) Do(request *http.Request) (*http.Response, error) {
	return r.transport.RoundTrip(request)
}

// credential is a credential of the SDK and a policy of its pipelines. When Azure answers 401, it opens the credential again,
// which otherwise keeps a token until its end, and repeats the request once. The SDK asks for another token by itself only
// after a challenge with claims.
type credential struct {
	*drivers.Renewable[azcore.TokenCredential]
}

// GetToken implements azcore.TokenCredential.
func (c *credential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	newest, _ := c.Get()
	return newest.GetToken(ctx, options)
}

// Do implements policy.Policy.
func (c *credential) Do(request *policy.Request) (*http.Response, error) {
	_, renewals := c.Get()
	answer, err := request.Next()
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		return answer, err
	}
	if _, err := c.Renew(renewals); err != nil || request.RewindBody() != nil {
		return answer, nil //nolint:nilerr // the response of Azure says more
	}
	_ = answer.Body.Close()
	return request.Next()
}
