package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
)

// pageSize is the default limit of Nova and Glance; a service with a lower limit returns fewer items.
const pageSize = 1000

// listing is a paged GET.
type listing struct {
	client *gophercloud.ServiceClient
	path   string     // below the service's endpoint
	query  url.Values // filters
	key    string     // of the list in the response
	doing  string     // for errors
}

// allIn is all for a service of the catalog, which sets the client of the listing.
func allIn[T any](ctx context.Context, s *session, service string, l listing, id func(T) string) (items []T, err error) {
	if l.client, err = s.service(service); err != nil {
		return nil, err
	}
	return all(ctx, l, id)
}

// all returns all items. It requests pages by marker and ignores the links in responses, which may be unreachable
// behind proxies.
func all[T any](ctx context.Context, l listing, id func(T) string) ([]T, error) {
	const restarts = 3
	for attempt := 1; ; attempt++ {
		items, err := onePass(ctx, l, id)
		// The marker was deleted between two pages, so the items may be wrong: list from the start.
		if len(items) > 0 && attempt < restarts && (isStatus(err, http.StatusBadRequest) || isStatus(err, http.StatusNotFound)) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return items, nil
	}
}

func onePass[T any](ctx context.Context, l listing, id func(T) string) ([]T, error) {
	var listed drivers.Pages
	var items []T
	marker := ""
	for {
		page, more, err := fetchPage[T](ctx, l, marker)
		if err != nil {
			return items, err
		}
		items = append(items, page...)
		next := ""
		if more && len(page) > 0 {
			marker = id(page[len(page)-1])
			next = "after " + marker // an item without an ID must not end the list
		}
		if err := listed.Next(next, len(page)); err != nil {
			return items, fmt.Errorf("%s: %w", l.doing, err)
		}
		if next == "" {
			return items, nil
		}
	}
}

func fetchPage[T any](ctx context.Context, l listing, marker string) ([]T, bool, error) {
	query := url.Values{}
	maps.Copy(query, l.query)
	query.Set("limit", strconv.Itoa(pageSize))
	if marker != "" {
		query.Set("marker", marker)
	}
	address := l.client.ServiceURL(l.path) + "?" + query.Encode()
	var answer map[string]json.RawMessage
	if err := get(ctx, l.client, address, &answer); err != nil {
		return nil, false, wrap(l.doing, err)
	}
	var page []T
	if raw, ok := answer[l.key]; !ok {
		return nil, false, fmt.Errorf("%s: the answer has no %s", l.doing, l.key)
	} else if err := json.Unmarshal(raw, &page); err != nil {
		return nil, false, fmt.Errorf("%s: %w", l.doing, err)
	}
	return page, hasNext(answer, l.key), nil
}

// hasNext reports whether a response links to a next page: "next" (Glance) or "<list>_links" (the others).
func hasNext(answer map[string]json.RawMessage, key string) bool {
	if raw, ok := answer["next"]; ok {
		var link string
		return json.Unmarshal(raw, &link) == nil && link != ""
	}
	type link struct {
		Rel string `json:"rel"`
	}
	var links []link
	err := json.Unmarshal(answer[key+"_links"], &links)
	return err == nil && slices.ContainsFunc(links, func(l link) bool { return strings.EqualFold(l.Rel, "next") })
}

// get reads one document.
func get(ctx context.Context, client *gophercloud.ServiceClient, address string, into any) error {
	_, err := client.Get(ctx, address, into, nil) //nolint:bodyclose // gophercloud has read and closed it
	return err
}
