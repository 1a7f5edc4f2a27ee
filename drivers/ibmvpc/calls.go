package ibmvpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// The version of the VPC API: responses and requests stay as they were on this day.
const apiVersion = "2025-04-08"

// api calls services of IBM Cloud.
type api struct {
	client *http.Client // adds a token
	base   string       // of the VPC API, such as https://eu-de.iaas.cloud.ibm.com/v1
}

// send sends a request with a token and returns the body of the response. An error response is an error.
func (a *api) send(ctx context.Context, doing, method, address string, header http.Header, body []byte) ([]byte, http.Header, error) {
	if err := context.Cause(ctx); err != nil { // the authenticator has no context
		return nil, nil, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, nil, drivers.Unsent(fmt.Errorf("%s: %w: %w", doing, drivers.ErrRejected, err))
	}
	if header != nil {
		request.Header = header.Clone()
	}
	request.Header.Set("User-Agent", "npctl")
	answer, err := a.client.Do(request)
	if login, ok := errors.AsType[*loginError](err); ok {
		return nil, nil, wrapLogin(doing, login.error)
	}
	if err != nil {
		return nil, nil, cloudkit.WrapTransport(doing, err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, nil, cloudkit.WrapTransport(doing, err)
	case answer.StatusCode >= 300:
		return nil, nil, newAPIError(doing, answer, content)
	}
	return content, answer.Header, nil
}

// call calls the VPC API. It decodes the response into out, unless out is nil.
func (a *api) call(ctx context.Context, doing, method, path string, query url.Values, body, out any) error {
	all := url.Values{"version": {apiVersion}, "generation": {"2"}}
	maps.Copy(all, query)
	header := http.Header{"Accept": {"application/json"}}
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
		}
		header.Set("Content-Type", "application/json")
	}
	answer, _, err := a.send(ctx, doing, method, a.base+path+"?"+all.Encode(), header, content)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s: %w: read the response: %w", doing, drivers.ErrUnavailable, err)
	}
	return nil
}

// get reads one object; false means that it does not exist.
func (a *api) get(ctx context.Context, doing, path string, out any) (bool, error) {
	err := a.call(ctx, doing, http.MethodGet, path, nil, nil, out)
	return err == nil, cloudkit.UnlessMissing(err)
}

// remove deletes one object; a missing one is no error.
func (a *api) remove(ctx context.Context, doing, path string) error {
	return cloudkit.UnlessMissing(a.call(ctx, doing, http.MethodDelete, path, nil, nil, nil))
}

// pageSize is the largest page of all lists.
const pageSize = "100"

// list reads all pages of a collection; field is the name of the array in the response.
func list[T any](ctx context.Context, a *api, doing, path string, query url.Values, field string) ([]T, error) {
	var listed drivers.Pages
	var all []T
	for start := ""; ; {
		paged := url.Values{"limit": {pageSize}}
		if start != "" {
			paged.Set("start", start)
		}
		maps.Copy(paged, query)
		var page map[string]json.RawMessage
		if err := a.call(ctx, doing, http.MethodGet, path, paged, nil, &page); err != nil {
			return nil, err
		}
		var items []T
		var next struct{ Href string }
		if err := errors.Join(decodeField(page, field, &items), decodeField(page, "next", &next)); err != nil {
			return nil, fmt.Errorf("%s: %w: read the response: %w", doing, drivers.ErrUnavailable, err)
		}
		all = append(all, items...)
		link, err := url.Parse(next.Href)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: read the response: %w", doing, drivers.ErrUnavailable, err)
		}
		start = link.Query().Get("start")
		if err := listed.Next(start, len(items)); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		if start == "" {
			return all, nil
		}
	}
}

func decodeField(page map[string]json.RawMessage, field string, into any) error {
	if raw, ok := page[field]; ok {
		return json.Unmarshal(raw, into)
	}
	if field != "next" {
		return fmt.Errorf("it has no %s", field)
	}
	return nil
}
