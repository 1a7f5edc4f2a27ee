package aws

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// Cloud is one region of one account.
type Cloud struct {
	*sweeper
	cloudkit.CloseIdle
	region    string
	account   string
	names     *names
	quotas    *quotas
	endings   endings
	ended     endedInstances
	templates usedTemplates
	shortages drivers.Shortages
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

// open reads the configuration files and variables of the AWS tools, and verifies the credentials with one call, which asks STS for
// their account.
func open(ctx context.Context, env drivers.Env, settings providerSettings) (drivers.Cloud, error) {
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(moreConnections)),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithAppID("npctl"),
		config.WithLogger(logging.Nop{}), // the SDK's own prints to stderr
	}
	if settings.Region != "" {
		options = append(options, config.WithRegion(settings.Region))
	}
	if settings.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(settings.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, drivers.Rejectf("read the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, drivers.Rejectf("no region; set region in the provider block, in the profile or in AWS_REGION")
	}
	cfg.Retryer = func() aws.Retryer { return renewal{credentials: cfg.Credentials} }
	idle := useTransport(&cfg, env.WrapTransport)
	identity, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return nil, wrapLogin(cfg.Region, err)
	}
	api := newCalls(ec2.NewFromConfig(cfg))
	c := &Cloud{
		region: cfg.Region, account: aws.ToString(identity.Account), CloseIdle: idle,
		names:   newNames(api),
		quotas:  newQuotas(servicequotas.NewFromConfig(cfg), env.Log),
		sweeper: &sweeper{&imageStore{ec2: api, ebs: ebs.NewFromConfig(cfg), bucket: newBucket(settings.Bucket, s3.NewFromConfig(cfg)), format: settings.Format}, env.Log},
	}
	return c, nil
}

// Location implements drivers.Locator.
func (c *Cloud) Location() string { return fmt.Sprintf("account %s, region %s", c.account, c.region) }

// renewal is the retryer of the SDK. It repeats a request once with new credentials if AWS no longer accepts the cached ones,
// such as those of a role or of a credential_process. Package drivers repeats requests after all other errors.
type renewal struct {
	aws.NopRetryer
	credentials aws.CredentialsProvider
}

// MaxAttempts implements aws.Retryer.
func (renewal) MaxAttempts() int { return 2 }

// RetryDelay implements aws.Retryer.
func (renewal) RetryDelay(int, error) (time.Duration, error) { return 0, nil }

// IsErrorRetryable implements aws.Retryer.
func (r renewal) IsErrorRetryable(err error) bool {
	cache, ok := r.credentials.(*aws.CredentialsCache)
	if !ok || !endedCodes().MatchString(codeOf(err)) {
		return false
	}
	cache.Invalidate()
	return true
}

// maxConnections is the number of connections to one host that stay open: an upload sends that many blocks at a time.
const maxConnections = 64

func moreConnections(t *http.Transport) { t.MaxIdleConnsPerHost = maxConnections }

// useTransport replaces the HTTP client of a configuration by its transport, which it wraps. The client itself, of the only
// type to which the SDK can add the certificates of AWS_CA_BUNDLE, does neither permit a wrapper nor close idle connections.
func useTransport(cfg *aws.Config, wrap func(http.RoundTripper) http.RoundTripper) (closeIdle func()) {
	var transport *http.Transport
	if client, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		transport = client.GetTransport()
	} else {
		transport = awshttp.NewBuildableClient().GetTransport()
	}
	used := http.RoundTripper(transport)
	if wrap != nil {
		used = wrap(transport)
	}
	cfg.HTTPClient = roundTripper{drivers.BoundBodies(used)}
	return transport.CloseIdleConnections
}

// roundTripper is a transport as a client of the SDK.
type roundTripper struct{ transport http.RoundTripper }

// Do implements aws.HTTPClient. The SDK closes the body of a request when the response begins. If net/http then calls WriteTo of the
// body to verify that its last byte was the last, that fails, and net/http closes the connection before the response is
// read. Without WriteTo, net/http uses Read, which reports the end.
func (r roundTripper) Do(request *http.Request) (*http.Response, error) {
	if request.Body != nil && request.Body != http.NoBody {
		request.Body = struct{ io.ReadCloser }{request.Body}
	}
	return r.transport.RoundTrip(request)
}
