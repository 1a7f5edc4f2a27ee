package zuul

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/fetch"
)

// parseAddress returns Zuul's root from an address that a user wrote: the root itself, a page, or an API address. The
// root may be in a directory of its host.
func parseAddress(written string) (root *url.URL, tenant string, err error) {
	parsed, err := url.Parse(written)
	if err != nil || parsed.Host == "" {
		return nil, "", fmt.Errorf("api_url %q is not a URL; write it like \"https://zuul.example.com/\"", fetch.Redacted(parsed))
	}
	parts := slices.DeleteFunc(strings.Split(parsed.Path, "/"), func(part string) bool { return part == "" })
	switch api, page := lastIndex(parts, "api"), slices.Index(parts, "t"); {
	case api >= 0: // api/…, api/tenant/<tenant>/…
		if len(parts) > api+2 && parts[api+1] == "tenant" {
			tenant = parts[api+2]
		}
		parts = parts[:api]
	case page >= 0 && page+1 < len(parts): // t/<tenant>/…
		tenant, parts = parts[page+1], parts[:page]
	case len(parts) > 0 && slices.Contains(pages, parts[len(parts)-1]):
		parts = parts[:len(parts)-1]
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: "/"}).JoinPath(parts...), tenant, nil
}

// pages lists the pages of a white-labelled Zuul, which are directly below its root.
var pages = []string{"status", "projects", "jobs", "builds", "buildsets", "nodes", "labels", "images", "tenants", "components"}

func lastIndex(parts []string, want string) int {
	for i, part := range slices.Backward(parts) {
		if part == want {
			return i
		}
	}
	return -1
}

// root is the information of a Zuul about itself.
type root struct {
	tenant        string // of a white label, else ""
	tenantUnknown bool   // it does not report the tenant
	fetchedAt     time.Time
}

// rootAge is how long a root is cached; Zuul lets HTTP caches keep it about as long.
const rootAge = time.Hour

// base returns the address below which the tenant's builds are.
func (s *source) base(ctx context.Context) (*url.URL, error) {
	known, err := s.fetchTenant(ctx)
	if err != nil {
		return nil, err
	}
	shown := fetch.Redacted(s.root)
	switch {
	case known.tenant != "" && s.tenant != "" && known.tenant != s.tenant:
		return nil, fmt.Errorf("%s is the address of tenant %q only: correct tenant, which is %q, or api_url", shown, known.tenant, s.tenant)
	case known.tenant != "":
		return s.root.JoinPath("api"), nil
	case s.tenant != "":
		return s.root.JoinPath("api", "tenant", url.PathEscape(s.tenant)), nil
	case known.tenantUnknown:
		return nil, fmt.Errorf("there is no Zuul at %s: %sapi/info is not found; correct api_url, or write tenant = \"…\"", shown, shown)
	default:
		return nil, fmt.Errorf("the Zuul at %s has several tenants: write tenant = \"…\"", shown)
	}
}

// fetchTenant requests the tenant of a Zuul, unless it did so within rootAge.
func (s *source) fetchTenant(ctx context.Context) (root, error) {
	key := s.root.String()
	b := s.builder
	b.mu.Lock()
	known, ok := b.roots[key]
	b.mu.Unlock()
	if ok && time.Since(known.fetchedAt) < rootAge {
		return known, nil
	}
	var answer struct {
		Info struct {
			Tenant *string `json:"tenant"`
		} `json:"info"`
	}
	err := s.api.get(ctx, call{address: s.root.JoinPath("api", "info"), open: true}, &answer)
	known = root{fetchedAt: time.Now()}
	switch {
	case errors.Is(err, errNotFound): // a proxy may allow only tenant addresses
		known.tenantUnknown = true
	case err != nil:
		return root{}, err
	case answer.Info.Tenant != nil:
		known.tenant = *answer.Info.Tenant
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.roots == nil {
		b.roots = map[string]root{}
	}
	b.roots[key] = known
	return known, nil
}
