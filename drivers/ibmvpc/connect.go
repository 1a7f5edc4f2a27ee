package ibmvpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/IBM/go-sdk-core/v5/core"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// Cloud is one VPC in one region of one account.
type Cloud struct {
	*imageStore
	cloudkit.CloseIdle
	settings providerSettings
	account  string
	vpc      reference
	api      *api
	names    *names
	recent   cloudkit.RecentList
	// waiting contains the running instances of the newest list that need a floating IP: the ID of the network interface by that of
	// the instance.
	waiting   cloudkit.Table[string, string]
	shortages drivers.Shortages
}

var (
	_ drivers.Cloud      = (*Cloud)(nil)
	_ drivers.ImageStore = (*Cloud)(nil)
	_ drivers.Resolver   = (*Cloud)(nil)
	_ drivers.Locator    = (*Cloud)(nil)
	_ drivers.Sweeper    = (*Cloud)(nil)
)

// open reads the configuration of IBM's libraries, and the VPCs of the region, which verifies the credentials, the region and the name of the VPC.
func open(ctx context.Context, env drivers.Env, settings providerSettings) (drivers.Cloud, error) {
	used, closeIdle := cloudkit.Transport(env, nil)
	base := ""
	authorized, err := drivers.Reauthorize(func() (http.RoundTripper, error) {
		authenticator, address, err := credentials(settings, &http.Client{Transport: used, Timeout: tokenLimit})
		base = address
		return &authorization{authenticator, used}, err
	})
	if err != nil {
		return nil, drivers.Rejectf("read the credentials of IBM Cloud: %w", err)
	}
	a := &api{client: &http.Client{Transport: authorized, CheckRedirect: keepToken}, base: base}
	c := &Cloud{settings: settings, CloseIdle: closeIdle, api: a, imageStore: newImageStore(a, settings)}
	if err := c.findVPC(ctx); err != nil {
		return nil, err
	}
	c.names = newNames(a, c.vpc.ID)
	return c, nil
}

// authorization is a transport that adds a token to requests. The authenticator caches the token until shortly before its end.
type authorization struct {
	core.Authenticator
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *authorization) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := a.Authenticate(request); err != nil {
		return nil, &loginError{err}
	}
	return a.next.RoundTrip(request)
}

// loginError is an error of an authenticator, which has sent no request to the service itself.
type loginError struct{ error }

func (e *loginError) Unwrap() error { return e.error }

// keepToken stops redirects: another host must not get the token.
func keepToken(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// tokenLimit is the time limit of a call for a token, which has no context.
const tokenLimit = 30 * time.Second

// credentials applies the configuration of IBM's libraries: a credentials file or variables, with a prefix.
func credentials(settings providerSettings, client *http.Client) (core.Authenticator, string, error) {
	authenticator, err := core.GetAuthenticatorFromEnvironment(settings.Credentials)
	if err != nil {
		return nil, "", err
	}
	if authenticator == nil {
		return nil, "", fmt.Errorf("there are none: set %s_APIKEY, or IBM_CREDENTIALS_FILE to a file with this name", envName(settings.Credentials))
	}
	switch a := authenticator.(type) {
	case *core.IamAuthenticator:
		a.Client = client
	case *core.ContainerAuthenticator:
		a.Client = client
	case *core.VpcInstanceAuthenticator:
		a.Client = client
	}
	properties, err := core.GetServiceProperties(settings.Credentials)
	if err != nil {
		return nil, "", err
	}
	base := cmp.Or(properties[core.PROPNAME_SVC_URL], "https://"+settings.Region+".iaas.cloud.ibm.com/v1")
	return authenticator, strings.TrimRight(base, "/"), nil
}

// envName returns the prefix of variables, as IBM's core library makes it.
func envName(prefix string) string { return strings.ToUpper(strings.ReplaceAll(prefix, "-", "_")) }

// findVPC finds the VPC by name or ID.
func (c *Cloud) findVPC(ctx context.Context) error {
	const doing = "log in to IBM Cloud"
	all, err := list[reference](ctx, c.api, doing, "/vpcs", nil, "vpcs")
	if err != nil {
		return c.explainRegion(doing, err)
	}
	i := slices.IndexFunc(all, func(v reference) bool { return v.is(c.settings.VPC) })
	if i < 0 {
		return &drivers.UnknownName{Attribute: "vpc", Value: c.settings.VPC, Detail: "no such VPC in region " + c.settings.Region, Near: drivers.Suggestions(c.settings.VPC, drivers.NamesOf(all, reference.name))}
	}
	c.vpc = all[i]
	for _, part := range strings.Split(c.vpc.CRN, ":") { // crn:v1:bluemix:public:is:eu-de:a/ACCOUNT::vpc:ID
		if account, ok := strings.CutPrefix(part, "a/"); ok {
			c.account = account
		}
	}
	return nil
}

// explainRegion adds similar regions to the error of a host name that does not exist.
func (c *Cloud) explainRegion(doing string, err error) error {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok && lookup.IsNotFound {
		near := ""
		if names := drivers.Suggestions(c.settings.Region, regions()); len(names) > 0 {
			near = "; did you mean " + strings.Join(names, ", ") + "?"
		}
		return drivers.Unsent(fmt.Errorf("%s: %w: no service at %s; check region %q and the network%s", doing, drivers.ErrUnavailable, lookup.Name, c.settings.Region, near))
	}
	return err
}

// regions are known regions, for suggestions. Others work too.
func regions() []string {
	return strings.Fields("au-syd br-sao ca-mon ca-tor eu-de eu-es eu-gb jp-osa jp-tok us-east us-south")
}

// Location implements drivers.Locator.
func (c *Cloud) Location() string {
	return fmt.Sprintf("account %s, region %s", c.account, c.settings.Region)
}
