package openstack

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/npctl/npctl/drivers"
)

// An entry is assembled as in openstacksdk
// (https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html): the profile that it names, overridden
// by the entry of the first clouds.yaml found, by that of the first secure.yaml, and by the values of the chosen region.
// The cloud "envvars" is the OS_* environment. gophercloud's own reader supports neither regions nor files in different
// folders nor profiles without a clouds-public.yaml, and lets OS_REGION_NAME change every cloud of the process; it
// receives the assembled entry and converts it to its own types.

// configSources are the locations of cloud configurations.
type configSources struct {
	getenv func(string) string
	// folders are searched in order.
	folders []string
}

// envCloud is the name of the cloud that OS_* variables define.
const envCloud = "envvars"

func systemSurroundings() configSources {
	folders := []string{"."}
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		folders = append(folders, filepath.Join(dir, "openstack"))
	} else if home, err := os.UserHomeDir(); err == nil {
		folders = append(folders, filepath.Join(home, ".config", "openstack"))
	}
	return configSources{getenv: os.Getenv, folders: append(folders, "/etc/openstack")}
}

// loadCloud returns the entry of a cloud and region.
func loadCloud(name, region string, from configSources) (entry, error) {
	raw, err := from.find(name)
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	raw, err = inRegion(name, raw, region)
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	e, err := parseEntry(name, raw)
	if err != nil {
		return entry{}, fmt.Errorf("%w: cloud %q: %w", drivers.ErrRejected, name, err)
	}
	return e, nil
}

// find returns the merged entry.
func (s configSources) find(name string) (map[string]any, error) {
	if name == "" {
		return nil, errors.New(`cloud is empty; name an entry of clouds.yaml, or "envvars" for OS_* variables`)
	}
	known, searched, err := s.load("clouds", "OS_CLIENT_CONFIG_FILE")
	if err != nil {
		return nil, err
	}
	secure, _, err := s.load("secure", "OS_CLIENT_SECURE_FILE")
	if err != nil {
		return nil, err
	}
	raw, ok := mapOf(known["clouds"])[name].(map[string]any)
	if secret, found := mapOf(secure["clouds"])[name].(map[string]any); found && ok {
		raw = merge(underscored(secret), underscored(raw))
	}
	if !ok && name == envCloud {
		raw, ok = s.environment()
	}
	switch {
	case ok:
	case name == envCloud:
		return nil, errors.New("cloud \"envvars\": OS_AUTH_URL is not set; source an openrc file first, or name an entry of clouds.yaml")
	case known == nil:
		return nil, fmt.Errorf("cloud %q: no clouds.yaml found; searched %s", name, strings.Join(searched, ", "))
	default:
		names := slices.Collect(maps.Keys(mapOf(known["clouds"])))
		return nil, fmt.Errorf("cloud %q is not in %s%s", name, strings.Join(searched, ", "), suggestionText(name, names))
	}
	return s.withProfile(name, underscored(raw))
}

// load reads the first file with that base name. If there is none, the error lists the searched paths.
func (s configSources) load(base, variable string) (map[string]any, []string, error) {
	var searched []string
	if path := s.getenv(variable); path != "" {
		searched = append(searched, path)
	}
	for _, folder := range s.folders {
		for _, ext := range []string{".yaml", ".yml", ".json"} {
			searched = append(searched, filepath.Join(folder, base+ext))
		}
	}
	for _, path := range searched {
		values, err := readYAML(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", path, err)
		}
		return values, []string{path}, nil
	}
	return nil, searched, nil
}

// maxConfigFile is the maximum size of a clouds.yaml in bytes.
const maxConfigFile = 4 << 20

func readYAML(path string) (map[string]any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfigFile {
		return nil, fmt.Errorf("file is larger than %d bytes", maxConfigFile)
	}
	return decodeYAML(text)
}

// environment returns the cloud that OS_* variables define.
func (s configSources) environment() (map[string]any, bool) {
	raw := map[string]any{}
	for _, key := range slices.Concat(authKeys(), entryKeys()) {
		if value := s.getenv("OS_" + strings.ToUpper(key)); value != "" {
			raw[key] = value
		}
	}
	for variable, key := range map[string]string{"OS_USERID": "user_id", "OS_TENANT_NAME": "project_name", "OS_TENANT_ID": "project_id"} {
		if value := s.getenv(variable); value != "" && raw[key] == nil {
			raw[key] = value
		}
	}
	return raw, raw["auth_url"] != nil
}

// withProfile merges the entry over the profile that it names.
func (s configSources) withProfile(name string, raw map[string]any) (map[string]any, error) {
	profile, _ := raw["profile"].(string)
	if profile == "" {
		profile, _ = raw["cloud"].(string)
	}
	if profile == "" {
		return raw, nil
	}
	public, searched, err := s.load("clouds-public", "OS_CLIENT_VENDOR_FILE")
	if err != nil {
		return nil, err
	}
	base, ok := mapOf(public["public-clouds"])[profile].(map[string]any)
	if !ok {
		base, ok = vendorProfile(profile)
	}
	if !ok && mapOf(raw["auth"])["auth_url"] == nil {
		return nil, fmt.Errorf("cloud %q has profile %q, which is unknown to npctl and not in %s; write auth_url into the entry instead",
			name, profile, strings.Join(searched, ", "))
	}
	return merge(raw, base), nil
}

// inRegion applies the values of the region: the requested one, else the entry's region_name, else the first of its
// regions. An entry without a list of regions accepts any region; the catalog decides.
func inRegion(name string, raw map[string]any, region string) (map[string]any, error) {
	raw = maps.Clone(raw)
	if region == "" {
		region, _ = raw["region_name"].(string)
	}
	regions, _ := raw["regions"].([]any)
	delete(raw, "regions")
	var names []string
	for _, r := range regions {
		regionName, values := regionOf(r)
		region = cmp.Or(region, regionName)
		if regionName == region {
			raw = merge(values, raw)
			raw["region_name"] = region
			return raw, nil
		}
		names = append(names, regionName)
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("cloud %q has no region %q%s", name, region, suggestionText(region, names))
	}
	raw["region_name"] = region
	return raw, nil
}

func regionOf(r any) (string, map[string]any) {
	if name, ok := r.(string); ok {
		return name, nil
	}
	m := mapOf(r)
	name, _ := m["name"].(string)
	return name, mapOf(m["values"])
}

// merge returns base with the values of over, and merges nested maps.
func merge(over, base map[string]any) map[string]any {
	result := maps.Clone(base)
	if result == nil {
		result = map[string]any{}
	}
	for key, value := range over {
		inner, isMap := value.(map[string]any)
		under, underIsMap := result[key].(map[string]any)
		if isMap && underIsMap {
			result[key] = merge(inner, under)
		} else if value != nil {
			result[key] = value
		}
	}
	return result
}

// mapOf returns v, or an empty map if v is not a map.
func mapOf(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// gopherEntry passes an entry to gophercloud's reader.
func gopherEntry(name string, raw map[string]any) ([]clouds.ParseOption, error) {
	text, err := json.Marshal(map[string]any{"clouds": map[string]any{name: raw}}) // JSON is YAML
	if err != nil {
		return nil, err
	}
	options := []clouds.ParseOption{
		clouds.WithCloudName(name),
		clouds.WithCloudsYAML(bytes.NewReader(text)),
		clouds.WithRegion(""),
		clouds.WithEndpointType(""),
	}
	// Without these, gophercloud would prefer OS_CACERT and similar variables to the entry.
	for key, option := range map[string]func(string) clouds.ParseOption{
		"cacert": clouds.WithCACertPath, "cert": clouds.WithClientCertPath, "key": clouds.WithClientKeyPath,
	} {
		if path, ok := raw[key].(string); ok && path != "" {
			options = append(options, option(path))
		}
	}
	return options, nil
}

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
