package aws

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	quotatypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// EC2 has no quotas of instances, cores and memory, but quotas of vCPUs by family of instance types, separately for spot
// instances, of dedicated hosts by family, and of volumes by type. Their codes are the names in ResourceAmounts.Other.

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
var familyOf = drivers.Pattern(`^[a-z]+`)

// quotaCode returns the code of the quota of an instance type; "" stands for a family without a known quota.
func quotaCode(instanceType string, spot bool) string {
	codes := families()[familyOf().FindString(instanceType)]
	if spot {
		return codes.spot
	}
	return codes.onDemand
}

// volumeCodes are the codes of one type of volumes.
type volumeCodes struct{ storage, iops string }

// volumeQuotas maps types of volumes to codes: https://docs.aws.amazon.com/general/latest/gr/ebs-service.html.
func volumeQuotas() map[string]volumeCodes {
	return map[string]volumeCodes{
		"gp2": {"L-D18FCD1D", ""}, "gp3": {"L-7A658B76", ""}, "io1": {"L-FD252861", "L-B3A130E6"}, "io2": {"L-09BD8365", "L-8D977E7E"},
		"sc1": {"L-17AF77E8", ""}, "st1": {"L-82ACEF56", ""}, "standard": {"L-9CF3C2EB", ""},
	}
}

// rootDisk is the root volume of a node as far as npctl knows it. An instance has it in a tag, so that a list of instances is
// sufficient to count it.
type rootDisk struct {
	kind       string
	size, iops int64 // GiB, operations per second
}

func (d rootDisk) String() string { return fmt.Sprintf("%s %d %d", d.kind, d.size, d.iops) }

func parseRootDisk(text string) (d rootDisk) {
	_, _ = fmt.Sscan(text, &d.kind, &d.size, &d.iops) // another text is no volume
	return d
}

// amounts returns the quotas that a volume uses: GiB and operations per second.
func (d rootDisk) amounts() resources.ResourceAmounts {
	other := map[string]int64{}
	codes := volumeQuotas()[d.kind]
	if codes.storage != "" && d.size > 0 {
		other[codes.storage] = d.size
	}
	if codes.iops != "" && d.iops > 0 {
		other[codes.iops] = d.iops
	}
	return resources.ResourceAmounts{Other: other}
}

// nodeAmounts returns the resources of one node of an offer. Those of a dedicated host do not count as vCPUs.
func (c *Cloud) nodeAmounts(ctx context.Context, size instanceType, spot, onHost bool, disk rootDisk) resources.ResourceAmounts {
	amounts := amountsOf(size.name, size, spot)
	if onHost {
		amounts.Other = nil
		if code := c.quotas.hostCode(ctx, size.name); code != "" {
			amounts.Other = map[string]int64{code: 1}
		}
	}
	return amounts.Plus(disk.amounts())
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
	services  []*serviceQuotas
	instances cloudkit.RecentList
	volumes   atomic.Bool // an offer names the type of its volumes
}

// serviceQuotas are the limits of one service.
type serviceQuotas struct {
	name     string
	limits   drivers.Names[quotaLimit]
	optional drivers.Optional
}

type quotaLimit struct {
	code  string
	host  string // family of dedicated hosts
	value int64
}

func newQuotas(client *servicequotas.Client, log *slog.Logger) *quotas {
	q := &quotas{client: client, log: log}
	for _, name := range []string{"ec2", "ebs"} {
		s := &serviceQuotas{name: name}
		s.limits.Fetch = func(ctx context.Context) ([]quotaLimit, error) { return q.fetch(ctx, name) }
		q.services = append(q.services, s)
	}
	return q
}

// maxQuotas is the largest page of service quotas.
const maxQuotas = 100

// hostQuota matches the names of the quotas of dedicated hosts, which are the only description of their codes.
var hostQuota = drivers.Pattern(`^Running Dedicated (\S+) Hosts$`)

// hostCode returns the code of the quota of dedicated hosts of an instance type; "" stands for an unknown one.
func (q *quotas) hostCode(ctx context.Context, instanceType string) string {
	family, _, _ := strings.Cut(instanceType, ".")
	limits, err := q.known(ctx)
	if err != nil {
		return "" // EC2 enforces it
	}
	for _, l := range limits {
		if l.host == family {
			return l.code
		}
	}
	return ""
}

// tib is the unit of quotas of storage, in GiB.
const tib = 1024

// known returns the limits that npctl can read. EC2 itself still enforces the others.
func (q *quotas) known(ctx context.Context) (all []quotaLimit, err error) {
	for _, s := range q.services {
		err := s.optional.Do(ctx, q.log, "quotas of "+s.name+" are not readable; npctl assumes no limits", func(ctx context.Context) error {
			limits, err := s.limits.Get(ctx)
			all = append(all, limits...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// fetch reads the applied quotas of a service.
func (q *quotas) fetch(ctx context.Context, service string) (limits []quotaLimit, err error) {
	units := map[string]int64{}
	for _, f := range families() {
		units[f.onDemand], units[f.spot] = 1, 1
	}
	for _, v := range volumeQuotas() {
		units[v.storage], units[v.iops] = tib, 1
	}
	delete(units, "")
	all, err := list("read service quotas", func(token *string) (*servicequotas.ListServiceQuotasOutput, error) {
		return q.client.ListServiceQuotas(ctx, &servicequotas.ListServiceQuotasInput{ServiceCode: aws.String(service), MaxResults: aws.Int32(maxQuotas), NextToken: token})
	}, func(p *servicequotas.ListServiceQuotasOutput) ([]quotatypes.ServiceQuota, *string) {
		return p.Quotas, p.NextToken
	})
	for _, one := range all {
		l := quotaLimit{code: aws.ToString(one.QuotaCode)}
		unit := units[l.code]
		if match := hostQuota().FindStringSubmatch(aws.ToString(one.QuotaName)); match != nil {
			l.host, unit = match[1], 1
		}
		if unit > 0 && one.Value != nil {
			l.value = int64(*one.Value * float64(unit))
			limits = append(limits, l)
		}
	}
	return limits, err
}

// Quota implements drivers.Cloud. The use is that of the newest list if it is recent.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	if err := context.Cause(ctx); err != nil {
		return resources.Quota{}, drivers.Unsent(err)
	}
	q := resources.Quota{Limit: resources.NoLimits()}
	limits, err := c.quotas.known(ctx)
	if err != nil {
		return resources.Quota{}, err
	}
	for _, l := range limits {
		if q.Limit.Other == nil {
			q.Limit.Other = map[string]int64{}
		}
		q.Limit.Other[l.code] = l.value
	}
	if q.Used, err = c.quotas.instances.Used(ctx, c.List); err != nil {
		return resources.Quota{}, err
	}
	if c.quotas.volumes.Load() {
		err = c.countVolumes(ctx, &q.Used)
	}
	return q, err
}

// countVolumes replaces the use of volumes by that of all volumes of the region.
func (c *Cloud) countVolumes(ctx context.Context, used *resources.ResourceAmounts) error {
	for _, codes := range volumeQuotas() {
		delete(used.Other, codes.storage)
		delete(used.Other, codes.iops)
	}
	all, err := c.ec2.volumes(ctx, nil)
	for _, v := range all {
		*used = used.Plus(rootDisk{string(v.VolumeType), int64(aws.ToInt32(v.Size)), int64(aws.ToInt32(v.Iops))}.amounts())
	}
	return err
}
