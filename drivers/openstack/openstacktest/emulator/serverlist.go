package emulator

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

func listServers(c *call) (*answer, error) {
	views := c.views()
	return answerServers(c, func(w *cloudState, s *server) any { return views.serverView(w, s) })
}

func listServersBriefly(c *call) (*answer, error) {
	views := c.views()
	return answerServers(c, func(_ *cloudState, s *server) any { return views.briefServer(s) })
}

func answerServers(c *call, show func(*cloudState, *server) any) (*answer, error) {
	limit, err := c.query.limit(c.cloud.options.PageLimit, c.cloud.options.PageLimit)
	if err != nil {
		return nil, err
	}
	q := c.serverQuery()
	filter, err := q.filter()
	if err != nil {
		return nil, err
	}
	views := []any{}
	var last string
	err = c.view(func(w *cloudState) error {
		servers, err := q.page(w, filter, limit)
		if err != nil {
			return err
		}
		for _, s := range servers {
			views = append(views, show(w, s))
			last = s.ID
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	body := view{"servers": views}
	if len(views) == limit && limit > 0 {
		body["servers_links"] = []any{linkView{"next", c.query.nextURL(c.base()+c.request.URL.Path, last)}}
	}
	return ok(body)
}

// serverQuery holds the query parameters of a list of servers.
type serverQuery struct {
	scope
	query
	micro micro
	kind  string // nova's name of the list
}

func (c *call) serverQuery() serverQuery {
	kind := "index"
	if strings.HasSuffix(c.request.URL.Path, "/detail") {
		kind = "detail"
	}
	return serverQuery{c.scope, c.query, c.micro, kind}
}

// page returns one page.
func (q serverQuery) page(w *cloudState, filter serverFilter, limit int) ([]*server, error) {
	from := len(w.Servers.rows) // newest first, so this is the index before which the page starts
	marker := q.Get("marker")
	sorted := len(q.Values["sort_key"]) > 0
	if marker != "" {
		s, known := w.Servers.byID[marker]
		if !known || !q.owns(&s.base) {
			return nil, badRequest("marker [%s] not found", marker)
		}
		from = w.Servers.index(s.Seq)
	}
	if sorted {
		from = len(w.Servers.rows)
	}
	var page []*server
	for _, s := range slices.Backward(w.Servers.rows[:from]) {
		if !s.listed(q.now) || !q.owns(&s.base) || !filter(w, s) {
			continue
		}
		if page = append(page, s); len(page) == limit && !sorted {
			return page, nil
		}
	}
	if !sorted {
		return page, nil
	}
	return q.sortedPage(page, marker, limit)
}

func (q serverQuery) sortedPage(servers []*server, marker string, limit int) ([]*server, error) {
	if err := q.sort(servers); err != nil {
		return nil, err
	}
	if marker != "" {
		at := slices.IndexFunc(servers, func(s *server) bool { return s.ID == marker })
		servers = servers[at+1:]
	}
	return servers[:min(limit, len(servers))], nil
}

type serverFilter func(*cloudState, *server) bool

// filter combines the filters that a project member may use; like nova, it ignores others.
func (q serverQuery) filter() (serverFilter, error) {
	if all := strings.ToLower(q.Get("all_tenants")); all == "1" || all == "true" {
		return nil, refuse(http.StatusForbidden, "Policy doesn't allow os_compute_api:servers:%s:get_all_tenants to be performed.", q.kind)
	}
	var all []serverFilter
	add := func(f serverFilter) { all = append(all, f) }
	for name := range q.Values {
		if err := q.addFilter(name, q.Get(name), add); err != nil {
			return nil, err
		}
	}
	return func(w *cloudState, s *server) bool {
		return !slices.ContainsFunc(all, func(f serverFilter) bool { return !f(w, s) })
	}, nil
}

func (q serverQuery) addFilter(name, value string, add func(serverFilter)) error {
	switch name {
	case "name", "ip", "ip6":
		expression, err := regexp.Compile(value) // compute matches names as MySQL regular expressions
		if err != nil {
			return badRequest("Invalid input for query parameters %s. Value: %s. '%s' is not a 'regex'", name, value, value)
		}
		add(func(w *cloudState, s *server) bool { return q.textFits(w, s, name, expression) })
	case "status":
		wanted := q.Values["status"]
		add(func(_ *cloudState, s *server) bool {
			return slices.ContainsFunc(wanted, func(one string) bool { return strings.EqualFold(one, s.Status) })
		})
	case "image":
		add(func(_ *cloudState, s *server) bool { return s.Image == value })
	case "flavor":
		add(func(_ *cloudState, s *server) bool { return s.Flavor == value })
	case "reservation_id":
		add(func(_ *cloudState, s *server) bool { return s.Reservation == value })
	case "tags", "tags-any", "not-tags", "not-tags-any":
		if q.micro >= 26 {
			add(func(_ *cloudState, s *server) bool { return tagsFit(name, value, s.Tags) })
		}
	case "changes-since":
		since, err := parseChange(value)
		if err != nil {
			return err
		}
		add(func(_ *cloudState, s *server) bool { return !s.Updated.Before(since) })
	default:
		q.addNewFilter(name, value, add)
	}
	return nil
}

// addNewFilter adds the filters that members may use since microversion 2.83.
func (q serverQuery) addNewFilter(name, value string, add func(serverFilter)) {
	if q.micro < 83 {
		return
	}
	switch name {
	case "availability_zone":
		add(func(_ *cloudState, s *server) bool { return s.Zone == value })
	case "key_name":
		add(func(_ *cloudState, s *server) bool { return s.Key == value })
	case "vm_state":
		add(func(_ *cloudState, s *server) bool { return vmState(s.Status) == value })
	case "task_state":
		add(func(_ *cloudState, s *server) bool { return s.Task == value })
	}
}

func (q serverQuery) textFits(w *cloudState, s *server, field string, expression *regexp.Regexp) bool {
	if field == "name" {
		return expression.MatchString(s.Name)
	}
	for _, addresses := range addressesOf(w, s, q.now) {
		for _, a := range addresses {
			if (a.Version == 4) == (field == "ip") && expression.MatchString(a.Address) {
				return true
			}
		}
	}
	return false
}

// sort sorts by the keys that nova supports; the default is newest first.
func (q serverQuery) sort(servers []*server) error {
	keys, directions := q.Values["sort_key"], q.Values["sort_dir"]
	if len(keys) == 0 {
		return nil
	}
	for _, key := range keys {
		if _, known := serverKeys[key]; !known {
			return badRequest("Invalid input for query parameters sort_key. Value: %s. '%s' is not one of the sort keys", key, key)
		}
	}
	slices.SortStableFunc(servers, func(a, b *server) int {
		for i, key := range keys {
			order := serverKeys[key](a, b)
			if i >= len(directions) || directions[i] != "asc" {
				order = -order
			}
			if order != 0 {
				return order
			}
		}
		return 0
	})
	return nil
}

var serverKeys = map[string]func(a, b *server) int{
	"created_at":        func(a, b *server) int { return a.Created.Compare(b.Created) },
	"updated_at":        func(a, b *server) int { return a.Updated.Compare(b.Updated) },
	"uuid":              func(a, b *server) int { return cmp.Compare(a.ID, b.ID) },
	"display_name":      func(a, b *server) int { return cmp.Compare(a.Name, b.Name) },
	"vm_state":          func(a, b *server) int { return cmp.Compare(vmState(a.Status), vmState(b.Status)) },
	"task_state":        func(a, b *server) int { return cmp.Compare(a.Task, b.Task) },
	"image_ref":         func(a, b *server) int { return cmp.Compare(a.Image, b.Image) },
	"instance_type_id":  func(a, b *server) int { return cmp.Compare(a.Flavor, b.Flavor) },
	"project_id":        func(a, b *server) int { return cmp.Compare(a.Project, b.Project) },
	"availability_zone": func(a, b *server) int { return cmp.Compare(a.Zone, b.Zone) },
}

// parseChange parses the filters changes-since and changes-before.
func parseChange(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, badRequest("Invalid input for query parameters changes-since. Value: %s. '%s' is not a 'date-time'", text, text)
}
