package openstack

import "strings"

// vendorProfile returns the profile of a public cloud that openstacksdk knows by name, without a clouds-public.yaml
// (data from its openstack/config/vendors). It has no lists of regions, since they become outdated; the catalog has
// them.
func vendorProfile(name string) (map[string]any, bool) {
	vendors := map[string]struct{ url, region, format string }{
		"auro":          {"https://api.van2.auro.io:5000/v3", "RegionOne", ""},
		"binero":        {"https://auth.binero.cloud:5000/v3", "europe-se-1", ""},
		"citycloud":     {"https://{region_name}.citycloud.com:5000/v3/", "", ""},
		"elastx":        {"https://ops.elastx.cloud:5000/v3", "se-sto", ""},
		"fuga":          {"https://identity.api.fuga.io:5000", "", ""},
		"otc":           {"https://iam.{region_name}.otc.t-systems.com/v3", "eu-de", "vhd"},
		"ovh":           {"https://auth.cloud.ovh.net/", "", ""},
		"ovh-us":        {"https://auth.cloud.ovh.us/", "", ""},
		"switchengines": {"https://keystone.cloud.switch.ch:5000/v3", "", "raw"},
		"vexxhost":      {"https://auth.vexxhost.net/v3", "ca-ymq-1", "raw"},
	}
	v, ok := vendors[name]
	profile := map[string]any{"auth": map[string]any{"auth_url": v.url}}
	if v.region != "" {
		profile["region_name"] = v.region
	}
	if v.format != "" {
		profile["image_format"] = v.format
	}
	return profile, ok
}

// withRegion inserts the region into an auth_url with a placeholder for it.
func withRegion(url, region string) string {
	return strings.NewReplacer("{region_name}", region, "%(region_name)s", region).Replace(url)
}
