package aws

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
)

// openAlone opens a region without AWS: it has no objects. wrap may respond first.
func openAlone(t *testing.T, log *slog.Logger, wrap func(http.RoundTripper) http.RoundTripper) *Cloud {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": "http://aws.test",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none,
	} {
		t.Setenv(name, value)
	}
	empty := testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		action := awstest.ActionOf(r)
		body := fmt.Sprintf(`<%[1]sResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><%[1]sResult><Account>123456789012</Account></%[1]sResult></%[1]sResponse>`, action)
		if action == "ListServiceQuotas" {
			body = `{"Quotas": [{"QuotaCode": "L-1216C47A", "Value": 32}]}`
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})
	env := drivers.Env{Provider: "drivertest", Log: log, WrapTransport: func(http.RoundTripper) http.RoundTripper { return wrap(empty) }}
	c, err := New().Open(t.Context(), env, cty.ObjectVal(map[string]cty.Value{"region": cty.StringVal("us-east-1")}))
	testutil.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*Cloud)
}

func TestEndlessListsAreErrors(t *testing.T) {
	drivertest.EndlessLists(t, drivertest.Listing{
		Open: func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
			return openAlone(t, nil, wrap)
		},
		Is: func(r *http.Request) bool { return awstest.ActionOf(r) == "DescribeInstances" },
		Page: func(items int, token string) string {
			return `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item><instancesSet>` +
				strings.Repeat(`<item><instanceId>i-1</instanceId></item>`, items) + `</instancesSet></item></reservationSet><nextToken>` + token + `</nextToken></DescribeInstancesResponse>`
		},
	})
}
