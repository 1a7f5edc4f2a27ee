package openstack

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/npctl/npctl/drivers"
)

// entry is everything needed to open a cloud.
type entry struct {
	name         string
	region       string
	auth         gophercloud.AuthOptions
	availability gophercloud.Availability
	tls          *tls.Config
	transport    http.RoundTripper // over tls, if set
	closed       func() error      // called by Close, if set
	imageFormat  string
	private      bool              // connect to private addresses unless a label says otherwise
	overrides    map[string]string // endpoints by service type, over the catalog's
}

// authKeys are the keys of an entry's auth section; in older files and the environment they are outside it.
func authKeys() []string {
	return []string{
		"auth_url", "username", "user_id", "password", "token", "project_name", "project_id",
		"user_domain_name", "user_domain_id", "project_domain_name", "project_domain_id", "domain_name", "domain_id",
		"default_domain", "system_scope", "trust_id",
		"application_credential_id", "application_credential_name", "application_credential_secret",
	}
}

func entryKeys() []string {
	return []string{
		"auth_type", "region_name", "interface", "endpoint_type", "cacert", "cert", "key", "verify", "insecure", "image_format",
		"compute_endpoint_override", "image_endpoint_override", "network_endpoint_override", "block_storage_endpoint_override", "volume_endpoint_override",
	}
}

// parseEntry converts the merged configuration to an entry.
func parseEntry(name string, raw map[string]any) (entry, error) {
	raw = underscored(raw)
	auth := authOf(raw)
	if err := checkAuth(raw, auth); err != nil {
		return entry{}, err
	}
	if url, ok := auth["auth_url"].(string); ok {
		region, _ := raw["region_name"].(string)
		auth["auth_url"] = identityURL(withRegion(url, region))
	}
	clean := map[string]any{"auth": auth}
	for _, key := range []string{"region_name", "cacert", "cert", "key"} {
		if value, ok := raw[key].(string); ok {
			clean[key] = value
		}
	}
	clean["interface"] = interfaceOf(raw)
	if verify, ok := verifyOf(raw); ok {
		clean["verify"] = verify
	}
	options, err := gopherEntry(name, clean)
	if err != nil {
		return entry{}, err
	}
	authOptions, endpoint, tlsConfig, err := clouds.Parse(options...)
	if err != nil {
		return entry{}, err
	}
	authOptions.AllowReauth = authOptions.TokenID == ""
	format, _ := raw["image_format"].(string)
	return entry{
		name: name, region: endpoint.Region, auth: authOptions, availability: endpoint.Availability, tls: tlsConfig,
		imageFormat: format, private: parseBool(raw["private"]), overrides: overridesOf(raw),
	}, nil
}

// identityURL returns the URL of Keystone's version 3, the only version since 2018. npctl does not use discovery,
// because the URLs in version documents may be unreachable behind proxies.
func identityURL(url string) string {
	url = strings.TrimSuffix(strings.TrimRight(url, "/"), "/v2.0")
	if !strings.HasSuffix(url, "/v3") {
		url += "/v3"
	}
	return url
}

func overridesOf(raw map[string]any) map[string]string {
	overrides := map[string]string{}
	for _, service := range []string{serviceCompute, serviceImage, serviceNetwork, serviceVolume} {
		if url, ok := raw[strings.ReplaceAll(service, "-", "_")+"_endpoint_override"].(string); ok {
			overrides[service] = url
		}
	}
	if url, ok := raw["volume_endpoint_override"].(string); ok && overrides[serviceVolume] == "" {
		overrides[serviceVolume] = url
	}
	return overrides
}

// underscored replaces hyphens in keys by underscores, as openstacksdk does.
func underscored(raw map[string]any) map[string]any {
	result := make(map[string]any, len(raw))
	for key, value := range raw {
		result[strings.ReplaceAll(key, "-", "_")] = value
	}
	return result
}

// authOf returns the auth section with old spellings renamed and defaults set, without the keys that its auth type
// forbids.
func authOf(raw map[string]any) map[string]any {
	auth := underscored(mapOf(raw["auth"]))
	for _, key := range authKeys() {
		if value, ok := raw[key].(string); ok && auth[key] == nil {
			auth[key] = value
		}
	}
	for old, key := range map[string]string{"tenant_name": "project_name", "tenant_id": "project_id", "user_name": "username"} {
		if value, ok := auth[old]; ok && auth[key] == nil {
			auth[key] = value
		}
		delete(auth, old)
	}
	switch kind := authType(raw, auth); kind {
	case "token":
		drop(auth, "username", "user_id", "password")
	case "applicationcredential":
		// An application credential implies its project; Keystone rejects a different scope.
		drop(auth, "project_name", "project_id", "project_domain_name", "project_domain_id", "password", "token")
	default:
		drop(auth, "token")
	}
	addDomains(auth)
	return auth
}

func drop(m map[string]any, keys ...string) {
	for _, key := range keys {
		delete(m, key)
	}
}

// addDomains sets missing domains as the openstack command does: default_domain, else the domain with the ID
// "default".
func addDomains(auth map[string]any) {
	fallback, _ := auth["default_domain"].(string)
	fallback = cmp.Or(fallback, "default")
	delete(auth, "default_domain")
	shared := auth["domain_id"] != nil || auth["domain_name"] != nil
	if auth["username"] != nil && auth["user_domain_id"] == nil && auth["user_domain_name"] == nil && !shared {
		auth["user_domain_id"] = fallback
	}
	if auth["project_name"] != nil && auth["project_domain_id"] == nil && auth["project_domain_name"] == nil && !shared {
		auth["project_domain_id"] = fallback
	}
}

// authType returns the type of credentials: the configured one, else that of the existing credentials.
func authType(raw, auth map[string]any) string {
	written, _ := raw["auth_type"].(string)
	switch kind := strings.TrimPrefix(strings.TrimPrefix(written, "v3"), "v2"); {
	case kind != "":
		return kind
	case auth["application_credential_secret"] != nil:
		return "applicationcredential"
	case auth["token"] != nil && auth["password"] == nil:
		return "token"
	default:
		return "password"
	}
}

// checkAuth reports missing credentials with better messages than those of the cloud.
func checkAuth(raw, auth map[string]any) error {
	kind := authType(raw, auth)
	if !slices.Contains([]string{"password", "token", "applicationcredential"}, kind) {
		return fmt.Errorf("auth_type %q is not supported; use password, token or v3applicationcredential", raw["auth_type"])
	}
	missing := ""
	switch {
	case auth["auth_url"] == nil:
		missing = "auth_url"
	case kind == "token" && auth["token"] == nil:
		missing = "token"
	case kind == "password" && auth["username"] == nil && auth["user_id"] == nil:
		missing = "username"
	case kind == "password" && auth["password"] == nil:
		missing = "password"
	case kind == "applicationcredential" && auth["application_credential_secret"] == nil:
		missing = "application_credential_secret"
	case kind == "applicationcredential" && auth["application_credential_id"] == nil && auth["application_credential_name"] == nil:
		missing = "application_credential_id"
	default:
		return nil
	}
	return fmt.Errorf("its auth section has no %s (secure.yaml may hold it as well)", missing)
}

func interfaceOf(raw map[string]any) string {
	for _, key := range []string{"endpoint_type", "interface"} {
		switch value := raw[key].(type) {
		case string:
			return value
		case []any:
			if len(value) > 0 {
				first, _ := value[0].(string)
				return first
			}
		}
	}
	return ""
}

func verifyOf(raw map[string]any) (bool, bool) {
	if value, ok := raw["insecure"]; ok {
		return !parseBool(value), true
	}
	value, ok := raw["verify"]
	return parseBool(value), ok
}

func parseBool(v any) bool {
	switch value := v.(type) {
	case bool:
		return value
	case string:
		b, _ := strconv.ParseBool(strings.ToLower(value))
		return b || strings.EqualFold(value, "yes") || strings.EqualFold(value, "on")
	default:
		return false
	}
}

// endpointEntry returns the entry of a cloud with a known endpoint.
func endpointEntry(e Endpoint) (entry, error) {
	if e.AuthURL == "" || e.Username == "" {
		return entry{}, fmt.Errorf("%w: endpoint without auth URL or user name", drivers.ErrRejected)
	}
	domain := cmp.Or(e.Domain, "Default")
	auth := gophercloud.AuthOptions{
		IdentityEndpoint: identityURL(e.AuthURL), Username: e.Username, Password: e.Password, DomainName: domain, AllowReauth: true,
	}
	if e.Project != "" {
		auth.Scope = &gophercloud.AuthScope{ProjectName: e.Project, DomainName: domain}
	}
	return entry{name: e.CloudName, region: e.Region, auth: auth, transport: e.Transport, closed: e.Closed, availability: gophercloud.AvailabilityPublic}, nil
}
