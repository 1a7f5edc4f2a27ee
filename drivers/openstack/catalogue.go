package openstack

import (
	"context"
	"errors"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

var (
	_ drivers.Cataloguer      = (*Cloud)(nil)
	_ drivers.CatalogueReader = (*Driver)(nil)
)

// about is what the resolution of names depends on beside the lists.
type about struct {
	Project      string       `json:"project"`
	Microversion microversion `json:"microversion"`
	Services     []string     `json:"services"`
}

// plainImage is an image in a catalogue, which is encoded with the names of its fields.
type plainImage image

// catalogue has the lists of a catalogue by their kind.
func (nm *names) catalogue(cloud *drivers.Names[about], images *drivers.Names[plainImage]) map[string]drivers.List {
	return map[string]drivers.List{"cloud": cloud, "images": images, "flavors": &nm.flavors, "networks": &nm.networks,
		"security_groups": &nm.securityGroups, "keys": &nm.keys, "zones": &nm.zones, "volume_types": &nm.volumeTypes}
}

// Catalogue implements drivers.Cataloguer: one call for each list that is not known yet, and one for the images.
func (c *Cloud) Catalogue(ctx context.Context) (resources.Catalogue, error) {
	cloud := &drivers.Names[about]{Fetch: func(context.Context) ([]about, error) {
		a := about{Project: c.project, Microversion: c.microversion}
		for _, kind := range []string{serviceNetwork, serviceVolume} {
			if c.hasService(kind) {
				a.Services = append(a.Services, kind)
			}
		}
		return []about{a}, nil
	}}
	images := &drivers.Names[plainImage]{Fetch: func(ctx context.Context) ([]plainImage, error) {
		found, err := c.listImages(ctx, url.Values{"status": {"active"}})
		all := make([]plainImage, len(found))
		for i := range found {
			all[i] = plainImage(found[i])
		}
		return all, err
	}}
	return drivers.Catalogue(ctx, c.names.catalogue(cloud, images))
}

// catalogueResolver resolves names by a catalogue.
type catalogueResolver struct {
	offerResolver
	imageFinder
}

// ResolverOf implements drivers.CatalogueReader.
func (*Driver) ResolverOf(_ cty.Value, catalogue resources.Catalogue) (drivers.Resolver, error) {
	nm := &names{session: &session{clients: map[string]*gophercloud.ServiceClient{}}}
	var cloud drivers.Names[about]
	var images drivers.Names[plainImage]
	if err := drivers.LoadCatalogue(catalogue, nm.catalogue(&cloud, &images)); err != nil {
		return nil, err
	}
	known, err := cloud.Get(context.Background())
	if err != nil || len(known) != 1 {
		return nil, drivers.ErrNotInCatalogue
	}
	nm.project = known[0].Project
	for _, kind := range known[0].Services {
		nm.clients[kind] = &gophercloud.ServiceClient{}
	}
	nm.provider = &gophercloud.ProviderClient{EndpointLocator: func(gophercloud.EndpointOpts) (string, error) {
		return "", errors.New("a catalogue has no endpoints")
	}}
	list := func(ctx context.Context, _ url.Values) ([]image, error) {
		found, err := images.Get(ctx)
		all := make([]image, len(found))
		for i := range found {
			all[i] = image(found[i])
		}
		return all, err
	}
	return &catalogueResolver{offerResolver{nm, known[0].Microversion}, imageFinder{list}}, nil
}
