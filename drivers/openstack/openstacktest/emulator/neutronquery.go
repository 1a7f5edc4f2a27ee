package emulator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// neutronControls are query parameters that are not filters.
var neutronControls = []string{"fields", "limit", "marker", "page_reverse"}

var tagFilters = []string{"tags", "tags-any", "not-tags", "not-tags-any"}

// neutronQuery holds the query parameters of a list in the network service.
type neutronQuery struct {
	query
	url string // of the request, without parameters
}

func (c *call) neutronQuery() neutronQuery {
	return neutronQuery{c.query, c.base() + c.request.URL.Path}
}

// answer filters, pages and writes a list as neutron does.
func (q neutronQuery) answer(plural string, rows []view) (*answer, error) {
	if err := q.checkFilters(rows); err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(v view) bool { return !q.selects(v) })
	rows, links, err := q.page(plural, rows)
	if err != nil {
		return nil, err
	}
	for i, v := range rows {
		rows[i] = q.fields(v)
	}
	body := view{plural: list(rows)}
	if links != nil {
		body[plural+"_links"] = links
	}
	return ok(body)
}

// checkFilters rejects filters for attributes that the objects do not have.
func (q neutronQuery) checkFilters(rows []view) error {
	if len(rows) == 0 {
		return nil
	}
	var wrong []string
	for name := range q.Values {
		if _, known := rows[0][name]; !known && !slices.Contains(neutronControls, name) && !slices.Contains(tagFilters, name) && name != "status" {
			wrong = append(wrong, name)
		}
	}
	if wrong == nil {
		return nil
	}
	slices.Sort(wrong)
	return refuseNeutron(400, "HTTPBadRequest", "['%s'] is invalid attribute for filtering", strings.Join(wrong, "', '"))
}

// selects reports whether an object matches every filter.
func (q neutronQuery) selects(v view) bool {
	for name, wanted := range q.Values {
		if slices.Contains(neutronControls, name) {
			continue
		}
		if slices.Contains(tagFilters, name) {
			if !tagsFit(name, strings.Join(wanted, ","), v["tags"].([]string)) {
				return false
			}
			continue
		}
		if !slices.ContainsFunc(wanted, func(text string) bool { return fits(v[name], text) }) {
			return false
		}
	}
	return true
}

// tagsFit applies one of the four tag filters that compute and network share.
func tagsFit(filter, wanted string, have []string) bool {
	names := strings.Split(wanted, ",")
	has := func(name string) bool { return slices.Contains(have, name) }
	all := !slices.ContainsFunc(names, func(name string) bool { return !has(name) })
	switch filter {
	case "tags":
		return all
	case "tags-any":
		return slices.ContainsFunc(names, has)
	case "not-tags":
		return !all
	default:
		return !slices.ContainsFunc(names, has)
	}
}

// fits compares an attribute with the text of a filter.
func fits(value any, text string) bool {
	switch v := value.(type) {
	case nil:
		return text == ""
	case string:
		return v == text
	case bool:
		b, err := strconv.ParseBool(strings.ToLower(text))
		return err == nil && b == v
	case int:
		return strconv.Itoa(v) == text
	case []string:
		return slices.Contains(v, text)
	case *string:
		return v != nil && *v == text
	default:
		return fmt.Sprint(v) == text
	}
}

// page selects the rows of a page by marker and limit. Without a limit all rows are on one page.
func (q neutronQuery) page(plural string, rows []view) ([]view, []any, error) {
	limit, err := q.limit(0, 0)
	if err != nil {
		return nil, nil, err
	}
	if marker := q.Get("marker"); marker != "" {
		at := slices.IndexFunc(rows, func(v view) bool { return v["id"] == marker })
		if at < 0 {
			return nil, nil, refuseNeutron(404, "HTTPNotFound", "%s %s could not be found.", singular(plural), marker)
		}
		rows = rows[at+1:]
	}
	if limit == 0 || len(rows) < limit {
		return rows, nil, nil
	}
	rows = rows[:limit]
	next := q.nextURL(q.url, rows[limit-1]["id"].(string))
	return rows, []any{view{"rel": "next", "href": next}}, nil
}

func singular(plural string) string { return strings.TrimSuffix(plural, "s") }

// fields selects the requested attributes.
func (q neutronQuery) fields(v view) view {
	wanted := q.Values["fields"]
	if len(wanted) == 0 {
		return v
	}
	short := view{}
	for _, name := range wanted {
		if value, known := v[name]; known {
			short[name] = value
		}
	}
	return short
}

// enough returns the number of rows, from the marker on, that one page needs if the request neither filters nor
// sorts: the marker and one page. Zero means that all rows are needed.
func (q neutronQuery) enough() int {
	for name := range q.Values {
		if name != "limit" && name != "marker" && name != "fields" {
			return 0
		}
	}
	limit, err := q.limit(0, 0)
	if err != nil || limit == 0 {
		return 0
	}
	return limit + 1
}
