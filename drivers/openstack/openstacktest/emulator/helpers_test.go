package emulator

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/npctl/npctl/internal/testutil"
)

// client is a logged-in gophercloud client, like that of the openstack driver.
type client struct {
	cloud    *Cloud
	provider *gophercloud.ProviderClient
	compute  *gophercloud.ServiceClient
	image    *gophercloud.ServiceClient
	network  *gophercloud.ServiceClient
	volume   *gophercloud.ServiceClient
}

func open(t testing.TB, o Options) *Cloud {
	t.Helper()
	cloud, err := Open(o)
	testutil.Must(t, err)
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	return cloud
}

// connect opens a cloud and logs in.
func connect(t testing.TB, o Options) *client {
	t.Helper()
	return login(t, open(t, o), User)
}

func login(t testing.TB, cloud *Cloud, user string) *client {
	t.Helper()
	c, err := tryLogin(t.Context(), cloud.Transport(), "http://emulator/identity/v3", user, Password)
	testutil.Must(t, err)
	c.cloud = cloud
	return c
}

func tryLogin(ctx context.Context, transport http.RoundTripper, authURL, user, password string) (*client, error) {
	provider, err := openstack.NewClient(authURL)
	if err != nil {
		return nil, err
	}
	provider.HTTPClient = http.Client{Transport: transport}
	err = openstack.Authenticate(ctx, provider, gophercloud.AuthOptions{
		IdentityEndpoint: authURL, Username: user, Password: password, TenantName: user, DomainName: Domain, AllowReauth: true,
	})
	if err != nil {
		return nil, err
	}
	c := &client{provider: provider}
	in := gophercloud.EndpointOpts{Region: Region}
	for _, one := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&c.compute, openstack.NewComputeV2}, {&c.image, openstack.NewImageV2}, {&c.network, openstack.NewNetworkV2},
		{&c.volume, openstack.NewBlockStorageV3},
	} {
		if *one.to, err = one.make(provider, in); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// rawBody sends a body unchanged and accepts any response.
func rawBody(body string) *gophercloud.RequestOpts {
	return &gophercloud.RequestOpts{
		RawBody: strings.NewReader(body), MoreHeaders: map[string]string{"Content-Type": "application/json"},
		OkCodes: []int{200, 201, 202, 204, 400, 403, 404, 409, 413},
	}
}
