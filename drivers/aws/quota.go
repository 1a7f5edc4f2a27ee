package aws

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// EC2 has no quotas of instances, cores and memory, but quotas of vCPUs by family of instance types, separately for spot
// instances. Their codes are the names in ResourceAmounts.Other.

// familyCodes are the codes of one family.
type familyCodes struct{ onDemand, spot string }

// families maps the prefixes of instance types to codes: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html.
func families() map[string]familyCodes {
	all := map[string]familyCodes{
		"dl":  {"L-6E869C2A", "L-85EED4F7"},
		"f":   {"L-74FC7D96", "L-88CF9481"},
		"g":   {"L-DB2E81BA", "L-3819A6DF"},
		"gr":  {"L-DB2E81BA", "L-3819A6DF"},
		"vt":  {"L-DB2E81BA", "L-3819A6DF"},
		"hpc": {"L-F7808C92", ""},
		"inf": {"L-1945791B", "L-B5D1601B"},
		"p":   {"L-417A185B", "L-7212CCBC"},
		"trn": {"L-2C3B7624", "L-6B0D517C"},
		"u":   {"L-43DA4232", ""},
		"x":   {"L-7295265B", "L-E3A00192"},
	}
	for _, standard := range []string{"a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"} {
		all[standard] = familyCodes{"L-1216C47A", "L-34B43A08"}
	}
	return all
}

// familyOf matches the letters in front of the generation, such as c of c7gn.large and u of u-6tb1.metal.
var familyOf = regexp.MustCompile(`^[a-z]+`)

// quotaCode returns the code of the quota of an instance type; "" stands for a family without a known quota.
func quotaCode(instanceType string, spot bool) string {
	codes := families()[familyOf.FindString(instanceType)]
	if spot {
		return codes.spot
	}
	return codes.onDemand
}

// amountsOf returns the resources of one instance.
func amountsOf(name string, size instanceType, spot bool) resources.ResourceAmounts {
	amounts := resources.ResourceAmounts{Instances: 1, Cores: size.cores, RAM: size.ram}
	if code := quotaCode(name, spot); code != "" {
		amounts.Other = map[string]int64{code: size.cores}
	}
	return amounts
}

// quotas reads the limits of the account, and keeps the newest list of instances.
type quotas struct {
	client    *servicequotas.Client
	log       *slog.Logger
	limits    drivers.Names[quotaLimit]
	instances recentList
}

type quotaLimit struct {
	code  string
	value int64
}

func newQuotas(client *servicequotas.Client, log *slog.Logger) *quotas {
	q := &quotas{client: client, log: log}
	q.limits.Fetch = q.fetch
	return q
}

// maxQuotas is the largest page of service quotas.
const maxQuotas = 100

// fetch reads the applied quotas of EC2. An account with credentials that must not read them has no limits that npctl knows:
// EC2 itself still enforces them.
func (q *quotas) fetch(ctx context.Context) (limits []quotaLimit, err error) {
	known := map[string]bool{}
	for _, f := range families() {
		known[f.onDemand], known[f.spot] = true, true
	}
	err = pages(func(token *string) (*string, error) {
		answer, err := q.client.ListServiceQuotas(ctx, &servicequotas.ListServiceQuotasInput{ServiceCode: aws.String("ec2"), MaxResults: aws.Int32(maxQuotas), NextToken: token})
		if err != nil {
			return nil, wrap("read service quotas", err)
		}
		for _, one := range answer.Quotas {
			if code := aws.ToString(one.QuotaCode); known[code] && one.Value != nil {
				limits = append(limits, quotaLimit{code, int64(*one.Value)})
			}
		}
		return answer.NextToken, nil
	})
	if errors.Is(err, drivers.ErrRejected) {
		q.log.Warn("service quotas are not readable; npctl assumes no limits", "error", err)
		return nil, nil
	}
	return limits, err
}

// Quota implements drivers.Cloud. The use is that of the newest list if it is recent.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	if err := context.Cause(ctx); err != nil {
		return resources.Quota{}, unsentError{err}
	}
	const no = resources.Unlimited
	q := resources.Quota{Limit: resources.ResourceAmounts{Instances: no, Cores: no, RAM: no, Volumes: no, VolumeGB: no, Addresses: no}}
	limits, err := c.quotas.limits.Get(ctx)
	if err != nil {
		return resources.Quota{}, err
	}
	for _, l := range limits {
		if q.Limit.Other == nil {
			q.Limit.Other = map[string]int64{}
		}
		q.Limit.Other[l.code] = l.value
	}
	list, ok := c.quotas.instances.get()
	if !ok {
		if list, err = c.List(ctx); err != nil {
			return resources.Quota{}, err
		}
	}
	for _, i := range list {
		q.Used = q.Used.Plus(i.Resources)
	}
	return q, nil
}

// recentList keeps the newest list of instances for the quota. Its zero value is usable.
type recentList struct {
	mu   sync.Mutex
	at   time.Time            // guarded by mu
	list []resources.Instance // guarded by mu
}

// recent is the age up to which the quota uses a list: the reconciler lists instances right before it reads the quota.
const recent = 5 * time.Second

func (r *recentList) set(list []resources.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.list = time.Now(), list
}

func (r *recentList) get() ([]resources.Instance, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, !r.at.IsZero() && time.Since(r.at) < recent
}
