package azure

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/azure/azuretest"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// newCloud returns an open resource group whose machines start and end at once.
func newCloud(t *testing.T) (*azuretest.Cloud, *Cloud) {
	t.Helper()
	logIn(t)
	a := azuretest.New()
	a.Delay = 0
	return a, mustOpen(t, a)
}

func nodeSpec(id string, attributes map[string]cty.Value) drivers.Spec {
	return drivers.Spec{Marks: resources.OwnerTags{Installation: "test", Kind: resources.KindNode, ID: id}, Hostname: "np" + id, ImageID: azuretest.Marketplace, Config: offerConfig(attributes)}
}

// launch creates a node and advances it until it is ready.
func launch(t *testing.T, c *Cloud, spec drivers.Spec) resources.Instance {
	t.Helper()
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	for range 3 {
		list, err := c.List(t.Context())
		testutil.Must(t, err)
		i := slices.IndexFunc(list, func(i resources.Instance) bool { return i.ID == made.ID })
		if i >= 0 && list[i].Status == resources.StatusReady {
			return list[i]
		}
		if i >= 0 {
			_, err = c.Advance(t.Context(), spec, list[i])
			testutil.Must(t, err)
		}
	}
	t.Fatalf("instance %s is not ready", made.ID)
	return made
}

func TestNodeHasTagsOnAllItsObjectsAndTakesThemAlong(t *testing.T) {
	a, c := newCloud(t)
	spec := nodeSpec("1", map[string]cty.Value{"tags": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("ci")}), "public_ipv6": cty.True})
	spec.Properties = map[string]string{"tenant": "x"}
	now := launch(t, c, spec)
	if now.Addresses.PublicIPv4 == "" || now.Addresses.PublicIPv6 == "" || now.Addresses.PrivateIPv4 == "" || now.Addresses.Interface != now.Addresses.PublicIPv4 {
		t.Errorf("addresses are %+v", now.Addresses)
	}
	objects := a.Objects()
	if len(objects) != 5 {
		t.Errorf("objects are %v, want a machine, a disk, an interface and two addresses", objects)
	}
	for name, tags := range objects {
		if drivers.DecodeTags(tags) != spec.Marks || tags["team"] != "ci" || tags["tenant"] != "x" || tags[tagName] != "np1" {
			t.Errorf("%s has tags %v", name, tags)
		}
	}
	testutil.Must(t, c.Delete(t.Context(), now.ID, spec.Marks))
	if left := a.Objects(); len(left) > 0 {
		t.Errorf("%v remain", left)
	}
}

func TestNextSizeIsTriedWithoutCapacity(t *testing.T) {
	a, c := newCloud(t)
	sizes := map[string]cty.Value{"vm_sizes": words("Standard_D4s_v5", "Standard_D2s_v5")}
	a.Fail("VirtualMachinesClient.BeginCreateOrUpdate", 1, http.StatusConflict, "SkuNotAvailable", "The requested VM size is currently not available in location.")
	if now := launch(t, c, nodeSpec("1", sizes)); now.Flavor != "Standard_D2s_v5" || now.Resources.RAM != 8192 {
		t.Errorf("instance is a %s with %d MiB, want the second size", now.Flavor, now.Resources.RAM)
	}
	a.Fail("VirtualMachinesClient.BeginCreateOrUpdate", 2, http.StatusConflict, "ZonalAllocationFailed", "Allocation failed.")
	if _, err := c.Create(t.Context(), nodeSpec("2", sizes)); !errors.Is(err, drivers.ErrCapacity) || !drivers.IsNothingDone(err) || !strings.Contains(err.Error(), "tried Standard_D2s_v5, Standard_D4s_v5") {
		t.Errorf("Create without capacity for any size: %v, want ErrCapacity", err)
	}
}

// Azure accepts some machines and reports later that it has no capacity.
func TestFailedStartHasAReasonAndTheNextNodeAnotherSize(t *testing.T) {
	a, c := newCloud(t)
	sizes := map[string]cty.Value{"vm_sizes": words("Standard_D4s_v5", "Standard_D2s_v5")}
	a.FailStarts("Standard_D4s_v5", "AllocationFailed")
	spec := nodeSpec("1", sizes)
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	for range 2 {
		list, err := c.List(t.Context())
		testutil.Must(t, err)
		if len(list) != 1 || list[0].Status != resources.StatusFailed || list[0].FaultKind != resources.FaultCapacity || !strings.Contains(list[0].Fault, "AllocationFailed") {
			t.Fatalf("list is %+v, want a failed instance without capacity", list)
		}
	}
	if n := a.Calls()["VirtualMachinesClient.InstanceView"]; n != 1 {
		t.Errorf("the reason was read %d times, want once", n)
	}
	testutil.Must(t, c.Delete(t.Context(), made.ID, spec.Marks))
	if now := launch(t, c, nodeSpec("2", sizes)); now.Flavor != "Standard_D2s_v5" {
		t.Errorf("the next node is a %s, want the size with capacity", now.Flavor)
	}
}

func TestExistingMachineOfOthersIsNotChanged(t *testing.T) {
	a, c := newCloud(t)
	spec := nodeSpec("1", nil)
	made := launch(t, c, spec)
	testutil.Must(t, c.setTags(t.Context(), tagged{what: "virtual machine", name: made.ID}, map[string]string{"owner": "another"}))
	if i, err := c.Create(t.Context(), spec); err == nil {
		t.Errorf("Create = %s, want an error", i.ID)
	}
	if tags := a.Objects()["vm "+made.ID]; tags["owner"] != "another" {
		t.Errorf("the machine of another user has tags %v", tags)
	}
}

func TestListsHavePages(t *testing.T) {
	a, c := newCloud(t)
	for n := range 5 {
		launch(t, c, nodeSpec(fmt.Sprint(n), nil))
	}
	a.PageSize = 2
	list, err := c.List(t.Context())
	testutil.Must(t, err)
	addresses := map[string]bool{}
	for _, i := range list {
		addresses[i.Addresses.Interface] = true
	}
	if len(list) != 5 || len(addresses) != 5 || addresses[""] {
		t.Errorf("%d instances with addresses %v, want 5", len(list), addresses)
	}
	for n := range 5 {
		spec := nodeSpec(fmt.Sprint(n), nil)
		testutil.Must(t, c.Delete(t.Context(), vmName(spec), spec.Marks))
	}
}

// A deletion that ends halfway leaves an interface with tags.
func TestLeftInterfaceIsListedAndDeleted(t *testing.T) {
	a, c := newCloud(t)
	marks := nodeSpec("1", nil).Marks
	name := a.AddInterface(drivers.EncodeTags(marks))
	left, err := c.Leftovers(t.Context())
	testutil.Must(t, err)
	if len(left) != 1 || left[0].Type != resources.LeftoverPort || left[0].ID != name || left[0].Marks != marks || left[0].InUse {
		t.Fatalf("leftovers are %+v", left)
	}
	testutil.Must(t, c.DeleteLeftover(t.Context(), left[0]))
	if objects := a.Objects(); len(objects) > 0 {
		t.Errorf("%v remain", objects)
	}
}

func TestPartsOfRunningNodesAreInUse(t *testing.T) {
	_, c := newCloud(t)
	now := launch(t, c, nodeSpec("1", nil))
	left, err := c.Leftovers(t.Context())
	testutil.Must(t, err)
	if len(left) != 3 {
		t.Errorf("leftovers are %+v, want a disk, an interface and an address", left)
	}
	for _, l := range left {
		if !l.InUse || !sameName(l.Server, now.ID) {
			t.Errorf("%s %s: in use %t by %q, want %s", l.Type, l.ID, l.InUse, l.Server, now.ID)
		}
	}
}

func imageSpec(content []byte, format string) drivers.ImageSpec {
	return drivers.ImageSpec{Marks: resources.OwnerTags{Installation: "test", Kind: resources.KindUpload, ID: "7"}, Name: "debian", Format: format, Size: int64(len(content))}
}

// The content has two ranges with data, one of zeros, and does not end at a whole MiB.
func TestUploadedRawImageIsAFixedVHD(t *testing.T) {
	a, c := newCloud(t)
	content := make([]byte, 3*rangeSize+1000)
	rand.Read(content[:rangeSize])
	content[2*rangeSize] = 1
	a.Fail("storage.PutPage", 1, http.StatusServiceUnavailable, "ServerBusy", "")
	made, err := c.UploadImage(t.Context(), imageSpec(content, formatRaw), bytes.NewReader(content))
	testutil.Must(t, err)
	stored := a.Pages(nameOf(made.ID))
	whole := append(bytes.Clone(content), make([]byte, 1<<20-1000)...)
	if len(stored) != len(whole)+sectorSize || !bytes.Equal(stored[:len(whole)], whole) {
		t.Fatalf("the image has %d bytes, want the file, zeros up to a MiB, and a footer", len(stored))
	}
	if n := a.Calls()["storage.PutPage"]; n != 4 {
		t.Errorf("%d ranges were sent, want 3 with data and one repetition", n)
	}
	if _, disk := a.Objects()["disk "+nameOf(made.ID)]; disk {
		t.Error("the disk of the upload remains")
	}
}

func TestDynamicVHDIsRejected(t *testing.T) {
	a, c := newCloud(t)
	content := append([]byte(vhdCookie), make([]byte, 1<<20)...)
	if _, err := c.UploadImage(t.Context(), imageSpec(content, formatVHD), bytes.NewReader(content)); !errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) {
		t.Errorf("upload of a dynamic VHD: %v, want ErrRejected", err)
	}
	fixed := append(bytes.Repeat([]byte{1}, 1<<20), vhdFooter(1<<20)...)
	made, err := c.UploadImage(t.Context(), imageSpec(fixed, formatVHD), bytes.NewReader(fixed))
	testutil.Must(t, err)
	if !bytes.Equal(a.Pages(nameOf(made.ID)), fixed) {
		t.Error("the image is not the fixed VHD")
	}
}

func TestCloudImagesOfEachFormAreResolved(t *testing.T) {
	_, c := newCloud(t)
	id := foreignImage(t, c)
	gallery := azuretest.ID("Microsoft.Compute/galleries", "lab/images/debian/versions/")
	for form, want := range map[string]string{
		azuretest.Marketplace: "", "Debian:debian-12:12-gen2:0.20261101.1": "", id: "", gallery + "1.0.0": "",
		"/SharedGalleries/lab/Images/debian/Versions/1.0.0": "", "/CommunityGalleries/lab/Images/debian/Versions/1.0.0": "",
		"Debian:debian-12:12-gen3:latest": "Debian:debian-12:12-gen2:latest", "Debian:debian-12:12-gen2:0.20261101.2": "Debian:debian-12:12-gen2:0.20261101.1",
		"None:none:none:latest": "-", gallery + "2.0.0": "-", "/SharedGalleries/lab/Images/debian/Versions/2.0.0": "-", "/CommunityGalleries/lab/Images/debian/Versions/2.0.0": "-",
		"/SharedGalleries/lab": "-", "debian": "-", id + "x": "-",
	} {
		found, problems, err := c.ResolveImage(t.Context(), resources.CloudImageSpec{Name: "x", ImageID: form})
		switch {
		case err != nil:
			t.Errorf("%s: %v", form, err)
		case want == "" && (len(problems) > 0 || found.ID != form):
			t.Errorf("%s: %q, problems %+v", form, found.ID, problems)
		case want != "" && (len(problems) != 1 || problems[0].Attribute != "image_id" || want != "-" && !slices.Contains(problems[0].Suggestions, want)):
			t.Errorf("%s: problems are %+v, want the suggestion %s", form, problems, want)
		}
	}
}

func TestMistakesInProvidersNameTheRemedy(t *testing.T) {
	a, _ := newCloud(t)
	for attribute, want := range map[string]struct{ value, text string }{
		"resource_group":  {"cj", "did you mean ci?"},
		"subscription_id": {"none", "SubscriptionNotFound"},
		"endpoint":        {"management.local", "write a URL"},
	} {
		_, err := openGroup(t, a, map[string]cty.Value{attribute: cty.StringVal(want.value)})
		if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s = %q: %v, want %q", attribute, want.value, err, want.text)
		}
	}
	c, err := openGroup(t, a, map[string]cty.Value{"location": cty.StringVal("westeurop")})
	testutil.Must(t, err)
	if _, problems, err := c.ResolveOffer(t.Context(), offerConfig(nil)); err != nil || len(problems) == 0 || !slices.Contains(problems[0].Suggestions, azuretest.Location) {
		t.Errorf("unknown location: %+v, %v", problems, err)
	}
	t.Setenv("AZURE_SUBSCRIPTION_ID", "")
	if _, err := openGroup(t, a, nil); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "subscription_id") {
		t.Errorf("without a subscription: %v", err)
	}
}

func TestMissingPermissionIsNamed(t *testing.T) {
	a, c := newCloud(t)
	a.Fail("VirtualMachinesClient.BeginCreateOrUpdate", 1, http.StatusForbidden, "AuthorizationFailed",
		"The client 'c' with object id 'o' does not have authorization to perform action 'Microsoft.Compute/virtualMachines/write' over scope '/subscriptions/s' or the scope is invalid.")
	if _, err := c.Create(t.Context(), nodeSpec("1", nil)); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "lack the permission Microsoft.Compute/virtualMachines/write") {
		t.Errorf("Create without the permission: %v", err)
	}
}

func TestUnreadableQuotasAreNoLimits(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError} {
		a, c := newCloud(t)
		a.Fail("UsageClient.NewListPager", 1, status, "AuthorizationFailed", "")
		if q, err := c.Quota(t.Context()); err != nil || q.Limit.Cores != resources.Unlimited {
			t.Errorf("%d: Quota = %+v, %v, want no limit", status, q.Limit, err)
		}
	}
	_, c := newCloud(t)
	if q, err := c.Quota(t.Context()); err != nil || q.Limit.Cores != 100 || q.Limit.Other["standardDSv5Family"] != 100 {
		t.Errorf("Quota = %+v, %v, want those of the location", q.Limit, err)
	}
}

// Roles of the resource group alone cannot list the machines of the subscription. An outage is no lack of permission.
func TestUnreadablePowerStatesStopNothing(t *testing.T) {
	a, c := newCloud(t)
	vm := foreignVM(t, c)
	status := func() resources.Status {
		t.Helper()
		list, err := c.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("List = %+v, %v", list, err)
		}
		return list[0].Status
	}
	a.Power(vm, "deallocated")
	a.Fail("VirtualMachinesClient.NewListAllPager", 1, http.StatusForbidden, "AuthorizationFailed", "")
	if now := status(); now != resources.StatusReady {
		t.Errorf("without the permission the machine is %s", now)
	}
	a.Fail("VirtualMachinesClient.NewListAllPager", 1, http.StatusServiceUnavailable, "ServiceUnavailable", "")
	if _, err := c.List(t.Context()); !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("List during an outage: %v", err)
	}
	if now := status(); now != resources.StatusFailed {
		t.Errorf("with the permission the machine is %s", now)
	}
}

func TestErrorsAreClassified(t *testing.T) {
	for _, test := range []struct {
		status        int
		code, message string
		kind          error
		nothing       bool
	}{
		{409, "SkuNotAvailable", "", drivers.ErrCapacity, true},
		{409, "AllocationFailed", "", drivers.ErrCapacity, true},
		{409, "OverconstrainedZonalAllocationRequest", "", drivers.ErrCapacity, true},
		{409, "QuotaExceeded", "", drivers.ErrQuota, true},
		{409, "OperationNotAllowed", "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.", drivers.ErrQuota, true},
		{400, "PublicIPCountLimitReached", "", drivers.ErrQuota, true},
		{429, "TooManyRequests", "", drivers.ErrThrottled, true},
		{429, "OperationNotAllowed", "The server rejected the request because too many requests have been received for this subscription.", drivers.ErrThrottled, true},
		{503, "ServiceUnavailable", "", drivers.ErrUnavailable, false},
		{500, "InternalServerError", "", nil, false},
		{409, "Conflict", "", nil, true},
		{400, "InvalidParameter", "", drivers.ErrRejected, true},
		{404, "ResourceNotFound", "", drivers.ErrRejected, true},
		{401, "InvalidAuthenticationToken", "", drivers.ErrRejected, true},
	} {
		response := &http.Response{StatusCode: test.status, Header: http.Header{"Retry-After": {"7"}}, Body: http.NoBody}
		err := wrap("test", &azcore.ResponseError{StatusCode: test.status, ErrorCode: test.code, RawResponse: response})
		if test.message != "" {
			err = &cloudkit.Error{Doing: "test", Code: test.code, Status: test.status, Kind: kindOf(test.code, test.message, test.status)}
		}
		for _, kind := range []error{drivers.ErrCapacity, drivers.ErrQuota, drivers.ErrThrottled, drivers.ErrUnavailable, drivers.ErrRejected} {
			if errors.Is(err, kind) != errors.Is(test.kind, kind) {
				t.Errorf("%d %s: is %v: %t, want %v", test.status, test.code, kind, errors.Is(err, kind), test.kind)
			}
		}
		if drivers.IsNothingDone(err) != test.nothing {
			t.Errorf("%d %s: nothing done: %t", test.status, test.code, !test.nothing)
		}
		if test.message == "" && drivers.RetryAfterOf(err).Seconds() != 7 {
			t.Errorf("%d %s: retry after %s", test.status, test.code, drivers.RetryAfterOf(err))
		}
	}
	if err := wrap("test", context.Canceled); errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("a canceled call is %v", err)
	}
}

func TestEndlessListsAreErrors(t *testing.T) {
	logIn(t)
	path := azuretest.ID("Microsoft.Compute", "virtualMachines")
	drivertest.EndlessLists(t, drivertest.Listing{
		Open: func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
			cloud := azuretest.New()
			// Microsoft's simulation panics when a call is cancelled, as the other lists are after an error.
			return mustOpen(t, wrap(testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
				return cloud.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
			})))
		},
		Is: func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Path == path },
		Page: func(items int, token string) string {
			return `{"value": [{}` + strings.Repeat(`,{}`, items-1) + `], "nextLink": "` + azuretest.Endpoint + path + "?token=" + token + `"}`
		},
	})
}
