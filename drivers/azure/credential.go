package azure

import (
	"context"
	"net/http"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// credential is a credential of the SDK and a policy of its pipelines. When Azure answers 401, it opens the credential again,
// which otherwise keeps a token until its end, and repeats the request once. The SDK asks for another token by itself only
// after a challenge with claims.
type credential struct {
	open func() (azcore.TokenCredential, error)

	mu       sync.Mutex // guards the fields below
	current  azcore.TokenCredential
	renewals int
}

// renew opens the credential.
func (c *credential) renew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := c.open()
	if err == nil {
		c.current, c.renewals = next, c.renewals+1
	}
	return err
}

func (c *credential) get() (azcore.TokenCredential, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.renewals
}

// GetToken implements azcore.TokenCredential.
func (c *credential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	current, _ := c.get()
	return current.GetToken(ctx, options)
}

// Do implements policy.Policy.
func (c *credential) Do(request *policy.Request) (*http.Response, error) {
	_, renewals := c.get()
	answer, err := request.Next()
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		return answer, err
	}
	if _, now := c.get(); now == renewals && c.renew() != nil || request.RewindBody() != nil {
		return answer, nil
	}
	_ = answer.Body.Close()
	return request.Next()
}
