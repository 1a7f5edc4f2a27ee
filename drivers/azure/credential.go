package azure

import (
	"context"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/npctl/npctl/drivers"
)

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
