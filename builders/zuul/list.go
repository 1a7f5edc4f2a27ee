package zuul

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/builders"
)

// listing is the result of listing the newest builds.
type listing struct {
	usable  []*build          // newest first
	refused map[string]string // reason by build ID
}

// list requests the newest successful builds of the job.
func (s *source) list(ctx context.Context) (listing, error) {
	base, err := s.base(ctx)
	if err != nil {
		return listing{}, err
	}
	var rows []json.RawMessage
	err = s.api.get(ctx, call{address: base.JoinPath("builds"), query: s.query()}, &rows)
	if errors.Is(err, errNotFound) && s.tenant != "" {
		err = fmt.Errorf("%w; is there a tenant %q?", err, s.tenant)
	}
	if err != nil {
		return listing{}, err
	}
	found := listing{refused: map[string]string{}}
	for _, row := range rows {
		b := &build{}
		if err := errors.Join(json.Unmarshal(row, b), b.complete()); err != nil {
			return listing{}, fmt.Errorf("read a build from the Zuul at %s: %w", s.api.shown, err)
		}
		if why := s.refuse(b); why != "" {
			found.refused[b.UUID] = why
			continue
		}
		found.usable = append(found.usable, b)
	}
	slices.SortFunc(found.usable, func(a, b *build) int { return cmp.Or(b.ended.Compare(a.ended), cmp.Compare(b.id, a.id)) })
	return found, nil
}

func (s *source) query() url.Values {
	query := url.Values{
		"project": {s.Project}, "pipeline": s.Pipelines, "job_name": {s.Job},
		"complete": {"true"}, "result": {"SUCCESS"}, "final": {"true"}, "limit": {strconv.FormatInt(s.PollBuilds, 10)},
	}
	if s.Branch != "" {
		query.Set("branch", s.Branch)
	}
	return query
}

// show requests one build.
func (s *source) show(ctx context.Context, id string) (*build, error) {
	base, err := s.base(ctx)
	if err != nil {
		return nil, err
	}
	b := &build{}
	err = s.api.get(ctx, call{address: base.JoinPath("build", id)}, b)
	if errors.Is(err, errNotFound) {
		return nil, fmt.Errorf("%w: build %s: %w", builders.ErrVersionGone, id, err)
	}
	if err == nil {
		err = b.complete()
	}
	return b, err
}

// refuse returns the reason why a build is not usable, or "". The query asks for usable builds only, but an unusable
// image is too dangerous to trust the server's filter.
func (s *source) refuse(b *build) string {
	fits := func(patterns []string, text string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, text) })
	}
	switch {
	case b.Result != "SUCCESS" || b.ended.IsZero():
		return "it has not succeeded"
	case b.Final != nil && !*b.Final:
		return "it was retried"
	case !matches(s.Job, b.Job):
		return fmt.Sprintf("it is of job %.100q", b.Job)
	case !fits(s.Pipelines, b.Pipeline):
		return fmt.Sprintf("it is of pipeline %.100q", b.Pipeline)
	case !matches(s.Project, b.project()):
		return fmt.Sprintf("it is of project %.100q", b.project())
	case s.Branch != "" && !matches(s.Branch, b.branch()):
		return fmt.Sprintf("it is of branch %.100q", b.branch())
	case b.unmerged() && !fits(s.TrustedPipelines, b.Pipeline):
		return "it built a change that is not merged, and its pipeline is not in trusted_pipelines"
	case len(s.matchingArtifacts(b)) == 0:
		return "it has no artifact that matches an artifact block"
	}
	return ""
}

// matches compares as Zuul does: * matches any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, rest, ok = strings.Cut(rest, part)
		if !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[last])
}

// nothing returns the error for a listing without a usable build.
func (l listing) nothing(s settings) error {
	text := fmt.Sprintf("there is no usable build of job %q of project %q in %s", s.Job, s.Project, strings.Join(s.Pipelines, ", "))
	count := map[string]int{}
	for _, why := range l.refused {
		count[why]++
	}
	var reasons []string
	for why, n := range count {
		reasons = append(reasons, fmt.Sprintf("%d× %s", n, why))
	}
	slices.Sort(reasons)
	return errors.New(strings.Join(append([]string{text}, reasons...), "; "))
}
