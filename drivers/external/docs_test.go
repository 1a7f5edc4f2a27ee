package external_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

const page = "../../docs/drivers/external.md"

var (
	sections  = regexp.MustCompile("(?ms)^### `([a-z_]+)`\n(.*?)(?:^### |^## |\\z)")
	documents = regexp.MustCompile("(?s)```json\n(.*?)```")
)

// documented returns the requests of a page by call, and its responses.
func documented(t *testing.T, text string) (requests map[string]string, responses map[string][]string) {
	t.Helper()
	requests, responses = map[string]string{}, map[string][]string{}
	for text != "" {
		at := sections.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		call, body := text[at[2]:at[3]], text[at[4]:at[5]]
		blocks := documents.FindAllStringSubmatch(body, -1)
		if len(blocks) < 2 {
			t.Fatalf("%s has %d documents, want a request and a response", call, len(blocks))
		}
		requests[call] = blocks[0][1]
		for _, block := range blocks[1:] {
			responses[call] = append(responses[call], block[1])
		}
		text = text[at[5]:]
	}
	return requests, responses
}

// TestDocumentsOfThePage runs a program that prints the responses of the page, and compares the requests that it
// receives with those of the page. NPCTL_UPDATE=1 writes the requests.
func TestDocumentsOfThePage(t *testing.T) {
	text := testutil.ReadFile(t, page)
	requests, responses := documented(t, text)
	dir := t.TempDir()
	for call, documents := range responses {
		testutil.WriteFile(t, filepath.Join(dir, call+".response"), documents[len(documents)-1])
	}
	p := newPlace(t, script(t, `cat >"`+dir+`/$1.request"; cat "`+dir+`/$1.response"`))
	p.dir = filepath.Join(dir, "rack")
	p.values["settings"], p.values["secrets"] = settings("region", "north"), settings("token", "example-token")
	got := exchange(t, p, dir, responses)
	for call := range requests {
		want := compact(t, requests[call])
		is := strings.ReplaceAll(compact(t, testutil.ReadFile(t, filepath.Join(dir, call+".request"))), p.dir, "/var/lib/npctl/.npctl/providers/rack")
		if diff := cmp.Diff(want, is); diff != "" {
			if os.Getenv("NPCTL_UPDATE") == "" {
				t.Errorf("request %s (-page +npctl):\n%s", call, diff)
			}
			text = strings.Replace(text, requests[call], indented(t, is), 1)
		}
	}
	if os.Getenv("NPCTL_UPDATE") != "" {
		testutil.WriteFile(t, page, text)
	}
	if len(requests) != 10 || got.Addresses.Interface != "192.0.2.7" {
		t.Errorf("%d calls are documented, the machine is %+v", len(requests), got)
	}
}

// exchange makes every call of the protocol and returns the machine of advance.
func exchange(t *testing.T, p *place, dir string, responses map[string][]string) resources.Instance {
	t.Helper()
	ctx, c := t.Context(), p.mustOpen(t)
	spec := nodeSpec()
	spec.Marks.Installation, spec.Marks.Hash, spec.Zone = "here", "v1:0123", "a"
	values := offer("size", "1", "image", "debian-12").AsValueMap()
	values["zones"] = list("a", "b")
	spec.Config = cty.ObjectVal(values)
	made, err := c.Create(ctx, spec)
	if err != nil || made.Marks != spec.Marks || made.Resources.Cores != 2 {
		t.Errorf("create: %+v, %v", made, err)
	}
	now, err := c.Advance(ctx, spec, made)
	testutil.Must(t, err)
	testutil.Must(t, c.Delete(ctx, made.ID, spec.Marks))
	if all, err := c.List(ctx); err != nil || len(all) != 2 {
		t.Errorf("list: %+v, %v", all, err)
	}
	if quota, err := c.Quota(ctx); err != nil || quota.Limit.Cores != 64 || quota.Limit.RAM != resources.Unlimited || quota.Used.Cores != 9 {
		t.Errorf("quota: %+v, %v", quota, err)
	}
	resolver, _ := drivers.ResolverOf(c)
	if resolved, problems, err := resolver.ResolveOffer(ctx, spec.Config); err != nil || len(problems) > 0 || resolved.Resources.RAM != 4096 {
		t.Errorf("resolve_offer: %+v, %v, %v", resolved, problems, err)
	}
	accessor, _ := drivers.AccessorOf(c)
	_, err = accessor.Access(ctx, made.ID)
	testutil.Must(t, err)
	console, _ := drivers.ConsoleOf(c)
	if log, err := console.ConsoleLog(ctx, made.ID); err != nil || log != "Welcome.\n" {
		t.Errorf("console: %q, %v", log, err)
	}
	testutil.WriteFile(t, filepath.Join(dir, "resolve_offer.response"), responses["resolve_offer"][0])
	if _, problems, err := resolver.ResolveOffer(ctx, spec.Config); err != nil || len(problems) != 1 || problems[0].Value != "debian-12" {
		t.Errorf("resolve_offer with a problem: %+v, %v", problems, err)
	}
	return now
}

// TestErrorOfThePage runs a program that prints the error of the page.
func TestErrorOfThePage(t *testing.T) {
	document := documents.FindStringSubmatch(testutil.ReadFile(t, page))[1]
	c := newPlace(t, script(t, described("cat <<'END'\n"+document+"END\n"))).mustOpen(t)
	if _, err := c.List(t.Context()); !errors.Is(err, drivers.ErrThrottled) || !drivers.IsNothingDone(err) || drivers.RetryAfterOf(err).Seconds() != 30 {
		t.Errorf("List: %v", err)
	}
}

func compact(t *testing.T, document string) string {
	t.Helper()
	var out bytes.Buffer
	testutil.Must(t, json.Compact(&out, []byte(document)))
	return out.String()
}

func indented(t *testing.T, document string) string {
	t.Helper()
	var out bytes.Buffer
	testutil.Must(t, json.Indent(&out, []byte(document), "", "  "))
	return out.String() + "\n"
}
