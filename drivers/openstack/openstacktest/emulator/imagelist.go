package emulator

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// glanceDefaultLimit is the default page length.
const glanceDefaultLimit = 25

// imageQuery holds the query parameters of a list of images.
type imageQuery struct{ query }

func listImages(c *call) (*answer, error) {
	limit, err := c.query.limit(min(glanceDefaultLimit, c.cloud.options.PageLimit), c.cloud.options.PageLimit)
	if err != nil {
		return nil, err
	}
	if v := c.query.Get("visibility"); v != "" && v != "all" && !slices.Contains(visibilities, v) {
		return nil, badRequest("Invalid visibility value: %s", v)
	}
	q := imageQuery{c.query}
	order, err := q.order()
	if err != nil {
		return nil, err
	}
	var page []view
	err = c.view(func(w *cloudState) error {
		var found []*image
		for i := range w.Images.newestFirst(c.now) {
			if i.visible(c.who.project) && q.fits(i) {
				found = append(found, i)
			}
		}
		slices.SortStableFunc(found, order)
		found, err := q.afterMarker(found)
		for _, i := range found[:min(limit, len(found))] {
			page = append(page, imageView(i))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return q.answer(page, limit)
}

func (q imageQuery) afterMarker(found []*image) ([]*image, error) {
	marker := q.Get("marker")
	if marker == "" {
		return found, nil
	}
	at := slices.IndexFunc(found, func(i *image) bool { return i.ID == marker })
	if at < 0 {
		return nil, badRequest("No image found with ID %s", marker)
	}
	return found[at+1:], nil
}

// answer links pages relative to the service, as glance does.
func (q imageQuery) answer(page []view, limit int) (*answer, error) {
	body := view{"images": list(page), "first": "/v2/images", "schema": "/v2/schemas/images"}
	first := q.Values
	first.Del("marker")
	if len(first) > 0 {
		body["first"] = "/v2/images?" + first.Encode()
	}
	if len(page) > 0 && len(page) == limit {
		body["next"] = q.nextURL("/v2/images", page[len(page)-1]["id"].(string))
	}
	return ok(body)
}

// imageControls are query parameters that are not filters.
var imageControls = []string{"limit", "marker", "sort", "sort_key", "sort_dir", "member_status"}

func (q imageQuery) fits(i *image) bool {
	if !q.Has("os_hidden") && i.Hidden {
		return false
	}
	for name, values := range q.Values {
		if !slices.Contains(imageControls, name) && !q.has(i, name, values) {
			return false
		}
	}
	return true
}

func (q imageQuery) has(i *image, name string, values []string) bool {
	value := values[0]
	switch name {
	case "tag":
		return !slices.ContainsFunc(values, func(tag string) bool { return !slices.Contains(i.Tags, tag) })
	case "visibility":
		return value == "all" || i.Visibility == value
	case "size_min", "size_max":
		n, err := strconv.ParseInt(value, 10, 64)
		return err == nil && (name == "size_min" && numberOf(i.Size) >= n || name == "size_max" && numberOf(i.Size) <= n)
	case "created_at", "updated_at":
		return timeFits(imageField(i, name), value)
	}
	if names, isList := strings.CutPrefix(value, "in:"); isList {
		return slices.Contains(strings.Split(strings.ReplaceAll(names, `"`, ""), ","), imageField(i, name))
	}
	return imageField(i, name) == value
}

// timeFits supports the prefixes gt:, gte:, lt:, lte:, eq: and neq: of a time; the default is eq.
func timeFits(have, filter string) bool {
	operator, wanted, found := strings.Cut(filter, ":")
	if !slices.Contains([]string{"gt", "gte", "lt", "lte", "eq", "neq"}, operator) || !found {
		operator, wanted = "eq", filter
	}
	if !strings.HasSuffix(wanted, "Z") {
		wanted += "Z"
	}
	order := cmp.Compare(have, wanted)
	switch operator {
	case "gt":
		return order > 0
	case "gte":
		return order >= 0
	case "lt":
		return order < 0
	case "lte":
		return order <= 0
	case "neq":
		return order != 0
	default:
		return order == 0
	}
}

var imageSortKeys = []string{
	"name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at",
}

// order parses sort=name:asc,… or the older sort_key and sort_dir. The default is newest first.
func (q imageQuery) order() (func(a, b *image) int, error) {
	keys, directions := q.Values["sort_key"], q.Values["sort_dir"]
	if text := q.Get("sort"); text != "" {
		if len(keys)+len(directions) > 0 {
			return nil, badRequest("Old and new sorting syntax cannot be combined")
		}
		for part := range strings.SplitSeq(text, ",") {
			key, direction, _ := strings.Cut(strings.TrimSpace(part), ":")
			keys, directions = append(keys, key), append(directions, cmp.Or(direction, "desc"))
		}
	}
	for _, key := range keys {
		if !slices.Contains(imageSortKeys, key) {
			return nil, refuse(http.StatusBadRequest, "Invalid sort key: %s. It must be one of the following: %s.", key, strings.Join(imageSortKeys, ", "))
		}
	}
	for _, direction := range directions {
		if direction != "asc" && direction != "desc" {
			return nil, badRequest("Invalid sort direction: %s", direction)
		}
	}
	return func(a, b *image) int { return compareImages(a, b, keys, directions) }, nil
}

func compareImages(a, b *image, keys, directions []string) int {
	for n, key := range keys {
		order := cmp.Compare(imageField(a, key), imageField(b, key))
		direction := "desc"
		if len(directions) > 0 {
			direction = directions[min(n, len(directions)-1)]
		}
		if direction == "desc" {
			order = -order
		}
		if order != 0 {
			return order
		}
	}
	return 0
}
