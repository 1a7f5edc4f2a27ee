package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// openAlone opens a region without AWS: it has no objects. wrap may respond first.
func openAlone(t *testing.T, log *slog.Logger, wrap func(http.RoundTripper) http.RoundTripper) *Cloud {
	t.Helper()
	return openProfile(t, log, filepath.Join(t.TempDir(), "none"), "", wrap)
}

// openProfile is openAlone with a profile of a configuration file.
func openProfile(t *testing.T, log *slog.Logger, file, profile string, wrap func(http.RoundTripper) http.RoundTripper) *Cloud {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": "http://aws.test",
		"AWS_CONFIG_FILE": file, "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
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
	values := map[string]cty.Value{"region": cty.StringVal("us-east-1")}
	if profile != "" {
		values["profile"] = cty.StringVal(profile)
	}
	c, err := New().Open(t.Context(), env, cty.ObjectVal(values))
	testutil.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*Cloud)
}

// A program that issues credentials need not say when they end.
func TestExpiredCredentialsAreRenewedOnce(t *testing.T) {
	dir := t.TempDir()
	file, program := filepath.Join(dir, "config"), filepath.Join(dir, "program")
	testutil.WriteFile(t, file, "[profile ci]\ncredential_process = sh "+program+"\n")
	testutil.WriteFile(t, program, `cd "${0%/*}" && echo >>issued && printf '{"Version": 1, "AccessKeyId": "AKIA%s", "SecretAccessKey": "secret"}' $(grep -c "" issued)`)
	requests, valid := 0, "AKIA1"
	c := openProfile(t, nil, file, "ci", func(next http.RoundTripper) http.RoundTripper {
		return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
			requests++
			if !strings.Contains(r.Header.Get("Authorization"), valid) {
				a := apiFault(http.StatusBadRequest, "RequestExpired", "Request has expired.")
				return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
			}
			return next.RoundTrip(r)
		})
	})
	requests, valid = 0, "AKIA2"
	if _, err := c.Leftovers(t.Context()); err != nil {
		t.Errorf("after the end of the credentials: %v", err)
	}
	requests, valid = 0, "another"
	_, err := c.ec2.instances(t.Context(), nil)
	if !errors.Is(err, drivers.ErrRejected) || requests != 2 {
		t.Errorf("with credentials that AWS never accepts: %d requests, %v", requests, err)
	}
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

// A failure of Service Quotas, for which npctl needs no permission, costs the limits and nothing else.
func TestQuotasAreOptional(t *testing.T) {
	for name, status := range map[string]int{"denied": http.StatusForbidden, "throttled": http.StatusTooManyRequests, "broken": http.StatusInternalServerError, "hanging": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				c := openAlone(t, slog.New(slog.NewTextHandler(&log, nil)), func(next http.RoundTripper) http.RoundTripper {
					return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
						switch action := awstest.ActionOf(r); {
						case action != "ListServiceQuotas":
							return next.RoundTrip(r)
						case status == 0:
							<-r.Context().Done()
							return nil, r.Context().Err()
						default:
							body := `{"__type": "Exception", "message": "no"}`
							return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
						}
					})
				})
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), drivers.DefaultTimeout)
					if q, err := c.Quota(ctx); err != nil || q.Limit.Cores != resources.Unlimited {
						t.Errorf("Quota = %+v, %v", q, err)
					}
					cancel()
					time.Sleep(time.Minute)
				}
				if n := strings.Count(log.String(), "level=WARN"); n != 2 {
					t.Errorf("%d warnings, want one for each of ec2 and ebs:\n%s", n, log.String())
				}
			})
		})
	}
}
