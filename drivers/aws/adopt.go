package aws

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// LookUp implements drivers.Adopter.
func (c *Cloud) LookUp(ctx context.Context, kind resources.Kind, id string) (resources.ExistingObject, bool, error) {
	if kind == resources.KindUpload {
		i, found, err := c.image(ctx, id)
		if err != nil || !found || aws.ToString(i.OwnerId) != c.account {
			return resources.ExistingObject{}, false, err
		}
		return existingImage(i), true, nil
	}
	i, found, err := c.instance(ctx, id)
	if err != nil || !found {
		return resources.ExistingObject{}, false, err
	}
	object, err := c.existing(ctx, i)
	return object, err == nil, err
}

// instance reads one instance; false means that it does not exist.
func (c *Cloud) instance(ctx context.Context, id string) (types.Instance, bool, error) {
	found, err := c.ec2.instances(ctx, []types.Filter{filter("instance-id", id)})
	if err != nil || len(found) == 0 || found[0].State != nil && found[0].State.Name == types.InstanceStateNameTerminated {
		return types.Instance{}, false, err
	}
	return found[0], true, nil
}

func (c *Cloud) existing(ctx context.Context, i types.Instance) (resources.ExistingObject, error) {
	converted, err := c.convert(ctx, []types.Instance{i})
	if err != nil {
		return resources.ExistingObject{}, err
	}
	object := resources.ExistingObject{Instance: converted[0], Program: cloudkit.NodepoolText(tagMap(i.Tags)), Settings: map[string][]string{}, BootedOf: aws.ToString(i.ImageId)}
	object.Instance.Name = cmp.Or(object.Instance.Name, object.Instance.ID)
	groups := make([]string, 0, len(i.SecurityGroups))
	for _, g := range i.SecurityGroups {
		groups = append(groups, aws.ToString(g.GroupId))
	}
	for name, values := range map[string][]string{"instance_types": {string(i.InstanceType)}, "key_name": {aws.ToString(i.KeyName)}, "subnet_ids": {aws.ToString(i.SubnetId)},
		"availability_zones": {converted[0].Zone}, "security_group_ids": groups} {
		if len(values) > 0 && values[0] != "" {
			object.Settings[name] = values
		}
	}
	return object, nil
}

func existingImage(i types.Image) resources.ExistingObject {
	return resources.ExistingObject{Image: remoteImage(i), Program: cloudkit.NodepoolText(tagMap(i.Tags))}
}

// ListOthers implements drivers.Adopter.
func (c *Cloud) ListOthers(ctx context.Context) (others []resources.ExistingObject, err error) {
	instances, err := c.ec2.instances(ctx, []types.Filter{filter("instance-state-name", "pending", "running", "stopping", "stopped")})
	if err != nil {
		return nil, err
	}
	converted, err := c.convert(ctx, instances)
	if err != nil {
		return nil, err
	}
	for n, i := range converted {
		if i.Marks == (resources.OwnerTags{}) {
			i.Name = cmp.Or(i.Name, i.ID)
			others = append(others, resources.ExistingObject{Instance: i, Program: cloudkit.NodepoolText(tagMap(instances[n].Tags))})
		}
	}
	images, err := c.describe(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}})
	for _, i := range images {
		if object := existingImage(i); object.Image.Marks == (resources.OwnerTags{}) {
			others = append(others, object)
		}
	}
	return others, err
}

// tagged is an instance or image with any tags.
type tagged struct {
	what, id string
	tags     map[string]string
	marks    resources.OwnerTags
}

// lookUpTagged reads the object of ownership tags.
func (c *Cloud) lookUpTagged(ctx context.Context, id string, kind resources.Kind) (tagged, bool, error) {
	if kind == resources.KindUpload {
		i, found, err := c.image(ctx, id)
		t := tagged{"image", id, tagMap(i.Tags), remoteImage(i).Marks}
		return t, found && err == nil && aws.ToString(i.OwnerId) == c.account, err
	}
	i, found, err := c.instance(ctx, id)
	t := tagged{"instance", id, tagMap(i.Tags), ownerOf(i)}
	return t, found && err == nil, err
}

// Adopt implements drivers.Adopter with one call for the ownership tags, and one for the removal of Nodepool's.
func (c *Cloud) Adopt(ctx context.Context, id string, marks, replaced resources.OwnerTags) error {
	t, exists, err := c.lookUpTagged(ctx, id, marks.Kind)
	if err == nil && !exists {
		err = fmt.Errorf("%w: %s %s does not exist", drivers.ErrRejected, marks.Kind, id)
	}
	if err != nil {
		return err
	}
	if err := cloudkit.CheckAdoptable(t.what, t.id, t.marks, marks, replaced); err != nil {
		return err
	}
	tags := drivers.EncodeTags(marks)
	tags[drivers.TagObject] = id
	if err := validateTags(tags); err != nil {
		return err
	}
	if _, err := c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList(tags)}); err != nil {
		return wrap("tag "+t.what+" "+id, err)
	}
	return c.removeTags(ctx, []string{id}, t.namesOf(func(name string) bool {
		return strings.HasPrefix(name, cloudkit.NodepoolPrefix) || isOwnerTag(name) && tags[name] == ""
	}))
}

// Release implements drivers.Adopter. The volumes, interfaces and snapshots of the object, and the tasks that made it, lose their
// tags before it.
func (c *Cloud) Release(ctx context.Context, id string, marks resources.OwnerTags) error {
	t, exists, err := c.lookUpTagged(ctx, id, marks.Kind)
	if err != nil || !exists {
		return err
	}
	if err := cloudkit.CheckAdoptable(t.what, t.id, t.marks, marks, resources.OwnerTags{}); err != nil {
		return err
	}
	if marks.Kind == resources.KindUpload {
		if err := c.releaseTasks(ctx, marks); err != nil {
			return err
		}
	}
	names := t.namesOf(func(name string) bool { return strings.HasPrefix(name, cloudkit.NodepoolPrefix) || isOwnerTag(name) })
	parts, err := c.partsOf(ctx, t, marks)
	if err != nil {
		return err
	}
	for _, ids := range [][]string{parts, {id}} {
		if err := c.removeTags(ctx, ids, names); err != nil {
			return err
		}
	}
	return nil
}

// isOwnerTag reports whether a tag names the owner of an object. The others of npctl describe the object.
func isOwnerTag(name string) bool {
	if name == cloudkit.TagInterface || name == tagVolume || name == cloudkit.TagFormat || name == cloudkit.TagSize || name == cloudkit.TagSHA256 {
		return false
	}
	return strings.HasPrefix(name, tagPrefix)
}

func (t tagged) namesOf(match func(string) bool) (names []string) {
	for name := range t.tags {
		if match(name) {
			names = append(names, name)
		}
	}
	return names
}

// partsOf returns the IDs of the objects that npctl created with an object.
func (c *Cloud) partsOf(ctx context.Context, t tagged, marks resources.OwnerTags) (ids []string, err error) {
	if t.marks.Installation == "" {
		return nil, nil
	}
	left, err := c.Leftovers(ctx)
	for _, l := range left {
		if l.Marks.SameRecord(marks) && (l.Server == t.id || l.Type == resources.LeftoverSnapshot && marks.Kind == resources.KindUpload) {
			ids = append(ids, l.ID)
		}
	}
	return ids, err
}

func (st *imageStore) removeTags(ctx context.Context, ids, names []string) error {
	if len(ids) == 0 || len(names) == 0 {
		return nil
	}
	in := &ec2.DeleteTagsInput{Resources: ids}
	for _, name := range names {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(name)})
	}
	_, err := st.ec2.DeleteTags(ctx, in)
	return unlessMissing(wrap("remove tags of "+strings.Join(ids, ", "), err))
}
