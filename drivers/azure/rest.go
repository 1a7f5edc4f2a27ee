package azure

import (
	"context"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/npctl/npctl/drivers"
)

// rest calls Azure Resource Manager without a generated client. The driver needs a few calls of Microsoft.Network. Its
// client is the largest package of the SDK and would triple the time to compile the driver.
type rest struct {
	pipeline runtime.Pipeline
	endpoint string
}

// send sends a request. A nil body is none, and a nil into ignores the response.
func (r *rest) send(ctx context.Context, method, path, version string, body, into any) error {
	request, err := runtime.NewRequest(ctx, method, runtime.JoinPaths(r.endpoint, path))
	if err != nil {
		return err
	}
	request.Raw().URL.RawQuery = "api-version=" + version
	if body != nil {
		if err := runtime.MarshalAsJSON(request, body); err != nil {
			return err
		}
	}
	answer, err := r.pipeline.Do(request) //nolint:bodyclose // the pipeline has read and closed it
	if err != nil {
		return err
	}
	if !runtime.HasStatusCode(answer, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent) {
		return runtime.NewResponseError(answer)
	}
	if into == nil {
		return answer.Body.Close()
	}
	return runtime.UnmarshalAsJSON(answer, into)
}

// page is a page of a list.
type page[T any] struct {
	Value    []T    `json:"value"`
	NextLink string `json:"nextLink"`
}

// list reads all pages of a list.
func list[T any](ctx context.Context, r *rest, path, version string) (all []T, err error) {
	pager := runtime.NewPager(runtime.PagingHandler[page[T]]{
		More: func(p page[T]) bool { return p.NextLink != "" },
		Fetcher: func(ctx context.Context, last *page[T]) (next page[T], err error) {
			if last == nil {
				return next, r.send(ctx, http.MethodGet, path, version, nil, &next)
			}
			request, err := runtime.NewRequest(ctx, http.MethodGet, last.NextLink)
			if err != nil {
				return next, err
			}
			answer, err := r.pipeline.Do(request) //nolint:bodyclose // the pipeline has read and closed it
			if err != nil {
				return next, err
			}
			if !runtime.HasStatusCode(answer, http.StatusOK) {
				return next, runtime.NewResponseError(answer)
			}
			return next, runtime.UnmarshalAsJSON(answer, &next)
		},
	})
	return collect(ctx, pager, func(p page[T]) ([]T, *string) { return p.Value, &p.NextLink })
}

// collect reads all pages of a list of the SDK. read returns the items of a page and the address of the next one.
func collect[P, T any](ctx context.Context, pager *runtime.Pager[P], read func(P) ([]T, *string)) (all []T, err error) {
	var listed drivers.Pages
	for pager.More() {
		p, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		items, next := read(p)
		if err := listed.Next(deref(next), len(items)); err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// The API versions of the calls without a generated client.
const (
	networkVersion  = "2024-05-01"
	groupsVersion   = "2021-04-01"
	locationVersion = "2022-12-01"
)

// reference is the ID of another object.
type reference struct {
	ID string `json:"id"`
}

// networkInterface is a network interface of Microsoft.Network.
type networkInterface struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Tags       map[string]string `json:"tags"`
	Properties struct {
		VirtualMachine *reference `json:"virtualMachine"`
		Configurations []struct {
			ID         string `json:"id"`
			Properties struct {
				Address  string     `json:"privateIPAddress"`
				Version  string     `json:"privateIPAddressVersion"`
				PublicIP *reference `json:"publicIPAddress"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
	} `json:"properties"`
}

// server returns the name of the virtual machine that has the interface.
func (n networkInterface) server() string {
	if n.Properties.VirtualMachine == nil {
		return ""
	}
	return nameOf(n.Properties.VirtualMachine.ID)
}

// publicIP is a public address of Microsoft.Network.
type publicIP struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Tags       map[string]string `json:"tags"`
	Properties struct {
		Address       string     `json:"ipAddress"`
		Version       string     `json:"publicIPAddressVersion"`
		Configuration *reference `json:"ipConfiguration"`
	} `json:"properties"`
}

// virtualNetwork is a virtual network with its subnets.
type virtualNetwork struct {
	Name       string `json:"name"`
	Properties struct {
		Subnets []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"subnets"`
	} `json:"properties"`
}

// nameOf returns the last part of an ID.
func nameOf(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// sameName compares names and IDs as Azure does, which changes their case in some responses.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }
