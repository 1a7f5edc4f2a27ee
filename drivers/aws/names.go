package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/singleflight"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// names are the lists that resolve the names in the configuration.
type names struct {
	ec2    *calls
	types  typeCache
	images imageCache

	typeNames      drivers.Names[string]
	subnets        drivers.Names[subnet]
	securityGroups drivers.Names[string]
	keys           drivers.Names[string]
	zones          drivers.Names[string]
}

type subnet struct{ id, zone string }

func newNames(api *calls) *names {
	n := &names{ec2: api}
	n.typeNames.Fetch = n.fetchTypeNames
	n.subnets.Fetch = n.fetchSubnets
	n.securityGroups.Fetch = n.fetchSecurityGroups
	n.keys.Fetch = n.fetchKeys
	n.zones.Fetch = n.fetchZones
	return n
}

// list returns the items of all pages. fetch reads the page with a token; read returns its items and the token of the next one.
func list[Page, T any](doing string, fetch func(token *string) (*Page, error), read func(*Page) ([]T, *string)) (all []T, err error) {
	err = pages(doing, func(token *string) (*string, int, error) {
		page, err := fetch(token)
		if err != nil {
			return nil, 0, err
		}
		items, next := read(page)
		all = append(all, items...)
		return next, len(items), nil
	})
	return all, err
}

// pages calls fetch with the token of each page until there is no next one. fetch also returns the number of items; doing is for
// errors.
func pages(doing string, fetch func(token *string) (next *string, items int, err error)) error {
	var listed drivers.Pages
	for token := (*string)(nil); ; {
		next, items, err := fetch(token)
		if err != nil {
			return wrap(doing, err)
		}
		if err := listed.Next(aws.ToString(next), items); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if aws.ToString(next) == "" {
			return nil
		}
		token = next
	}
}

// pageSize is the largest page of most lists of EC2.
const pageSize = 1000

func (n *names) fetchTypeNames(ctx context.Context) ([]string, error) {
	found, err := list("list instance types", func(token *string) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
		return n.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{MaxResults: aws.Int32(pageSize), NextToken: token})
	}, func(p *ec2.DescribeInstanceTypeOfferingsOutput) ([]types.InstanceTypeOffering, *string) {
		return p.InstanceTypeOfferings, p.NextToken
	})
	return drivers.NamesOf(found, func(o types.InstanceTypeOffering) string { return string(o.InstanceType) }), err
}

func (n *names) fetchSubnets(ctx context.Context) (found []subnet, err error) {
	all, err := list("list subnets", func(token *string) (*ec2.DescribeSubnetsOutput, error) {
		return n.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{MaxResults: aws.Int32(pageSize), NextToken: token})
	}, func(p *ec2.DescribeSubnetsOutput) ([]types.Subnet, *string) { return p.Subnets, p.NextToken })
	for _, s := range all {
		found = append(found, subnet{aws.ToString(s.SubnetId), aws.ToString(s.AvailabilityZone)})
	}
	return found, err
}

func (n *names) fetchSecurityGroups(ctx context.Context) ([]string, error) {
	found, err := list("list security groups", func(token *string) (*ec2.DescribeSecurityGroupsOutput, error) {
		return n.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{MaxResults: aws.Int32(pageSize), NextToken: token})
	}, func(p *ec2.DescribeSecurityGroupsOutput) ([]types.SecurityGroup, *string) {
		return p.SecurityGroups, p.NextToken
	})
	return drivers.NamesOf(found, func(g types.SecurityGroup) string { return aws.ToString(g.GroupId) }), err
}

func (n *names) fetchKeys(ctx context.Context) ([]string, error) {
	answer, err := n.ec2.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{})
	if err != nil {
		return nil, wrap("list key pairs", err)
	}
	return drivers.NamesOf(answer.KeyPairs, func(k types.KeyPairInfo) string { return aws.ToString(k.KeyName) }), nil
}

func (n *names) fetchZones(ctx context.Context) (found []string, err error) {
	answer, err := n.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return nil, wrap("list availability zones", err)
	}
	for _, z := range answer.AvailabilityZones {
		if z.State == types.AvailabilityZoneStateAvailable {
			found = append(found, aws.ToString(z.ZoneName))
		}
	}
	return found, nil
}

// instanceType is what npctl needs to know about an instance type.
type instanceType struct {
	name       string
	cores, ram int64    // RAM in MiB
	runs       []string // architectures
}

// typeCache keeps instance types, which never change, by name.
type typeCache struct {
	cloudkit.Table[string, instanceType]
}

func (c *typeCache) split(wanted []string) (found map[string]instanceType, missing []string) {
	found = map[string]instanceType{}
	for _, name := range wanted {
		if t, ok := c.Get(name); ok {
			found[name] = t
		} else if !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return found, missing
}

func (c *typeCache) add(list []types.InstanceTypeInfo) {
	for _, t := range list {
		one := instanceType{name: string(t.InstanceType)}
		if t.VCpuInfo != nil {
			one.cores = int64(aws.ToInt32(t.VCpuInfo.DefaultVCpus))
		}
		if t.MemoryInfo != nil {
			one.ram = aws.ToInt64(t.MemoryInfo.SizeInMiB)
		}
		if t.ProcessorInfo != nil {
			for _, a := range t.ProcessorInfo.SupportedArchitectures {
				one.runs = append(one.runs, string(a))
			}
		}
		c.Set(one.name, one)
	}
}

// maxTypes is the number of instance types in one call.
const maxTypes = 100

// instanceTypes returns instance types by name. It reads unknown types only; a missing type is no error.
func (n *names) instanceTypes(ctx context.Context, wanted []string) (map[string]instanceType, error) {
	_, missing := n.types.split(wanted)
	for chunk := range slices.Chunk(missing, maxTypes) {
		// A filter, other than a list of names, does not fail with an unknown name.
		err := pages("read instance types", func(token *string) (*string, int, error) {
			answer, err := n.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{
				Filters: []types.Filter{filter("instance-type", chunk...)}, MaxResults: aws.Int32(maxTypes), NextToken: token})
			if err != nil {
				return nil, 0, err
			}
			n.types.add(answer.InstanceTypes)
			return answer.NextToken, len(answer.InstanceTypes), nil
		})
		if err != nil {
			return nil, err
		}
	}
	found, _ := n.types.split(wanted)
	return found, nil
}

// sharedLimit ends a call that several callers share.
const sharedLimit = time.Minute

// bootImage is the part of an AMI that Create needs.
type bootImage struct {
	rootDevice string
	volumeSize int64  // GiB
	snapshot   string // of the root volume
	fetched    time.Time
}

// imageCache keeps AMIs by ID. Its entries expire, because AMIs can be deleted.
type imageCache struct {
	cloudkit.Table[string, bootImage]
	flight singleflight.Group
}

func (c *imageCache) get(id string) (bootImage, bool) {
	i, ok := c.Get(id)
	return i, ok && time.Since(i.fetched) < drivers.CacheAge
}

// bootImage reads an AMI. Concurrent callers share one call.
func (n *names) bootImage(ctx context.Context, id string) (bootImage, error) {
	if i, ok := n.images.get(id); ok {
		return i, nil
	}
	done := n.images.flight.DoChan(id, func() (any, error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedLimit)
		defer cancel()
		return n.fetchBootImage(limited, id)
	})
	select {
	case <-ctx.Done():
		return bootImage{}, context.Cause(ctx)
	case result := <-done:
		i, _ := result.Val.(bootImage)
		return i, result.Err
	}
}

func (n *names) fetchBootImage(ctx context.Context, id string) (bootImage, error) {
	if i, ok := n.images.get(id); ok {
		return i, nil
	}
	missing := &drivers.UnknownName{Attribute: "image", Value: id, Detail: "no such AMI in the region"}
	answer, err := n.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	if err = wrap("read image "+id, err); isMissing(err) || strings.HasPrefix(codeOf(err), "InvalidAMIID") {
		return bootImage{}, missing
	}
	if err != nil {
		return bootImage{}, drivers.Unsent(err)
	}
	if len(answer.Images) == 0 {
		return bootImage{}, missing
	}
	i := bootImageOf(answer.Images[0])
	n.images.Set(id, i)
	return i, nil
}

func bootImageOf(image types.Image) bootImage {
	i := bootImage{rootDevice: aws.ToString(image.RootDeviceName), fetched: time.Now()}
	for _, m := range image.BlockDeviceMappings {
		if aws.ToString(m.DeviceName) == i.rootDevice && m.Ebs != nil {
			i.volumeSize, i.snapshot = int64(aws.ToInt32(m.Ebs.VolumeSize)), aws.ToString(m.Ebs.SnapshotId)
		}
	}
	return i
}

// didYouMean returns the end of an error about an unknown name.
func didYouMean(name string, names []string) string {
	if near := drivers.Suggestions(name, names); len(near) > 0 {
		return "; did you mean " + strings.Join(near, ", ") + "?"
	}
	return ""
}

// regions are the regions of the partition aws, for suggestions. Others work too.
func regions() []string {
	return strings.Fields("af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1 " +
		"ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-7 ca-central-1 ca-west-1 eu-central-1 eu-central-2 eu-north-1 " +
		"eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 mx-central-1 sa-east-1 us-east-1 " +
		"us-east-2 us-west-1 us-west-2")
}
