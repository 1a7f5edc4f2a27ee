package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/sandbox"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// unreachable is a driver that a test must not open.
type unreachable struct{ t *testing.T }

func (unreachable) Kind() string { return "unreachable" }

func (unreachable) Schema() schema.Driver {
	return schema.Driver{HasLabels: true, HasImages: true, Formats: []string{"raw"}}
}

func (u unreachable) Open(context.Context, drivers.Env, cty.Value) (drivers.Cloud, error) {
	u.t.Error("opened the driver that is replaced")
	return nil, drivers.ErrRejected
}

func openReplacement(t *testing.T, d drivers.Driver) drivers.Cloud {
	t.Helper()
	cloud, err := d.Open(t.Context(), drivers.Env{Provider: "a"}, cty.NullVal(cty.DynamicPseudoType))
	testutil.Must(t, err)
	return cloud
}

func TestContentOfReplacementOutlivesTheConnection(t *testing.T) {
	d := sandbox.Replace(unreachable{t})
	marks := resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: "1"}
	first := openReplacement(t, d)
	made, err := first.Create(t.Context(), drivers.Spec{Marks: marks, Hostname: "np1"})
	testutil.Must(t, err)
	testutil.Must(t, first.Close())
	again := openReplacement(t, d)
	if list, err := again.List(t.Context()); err != nil || len(list) != 1 || list[0].Marks != marks || list[0].Status != resources.StatusReady {
		t.Fatalf("instances are %v, %v", list, err)
	}
	if err := again.Delete(t.Context(), made.ID, resources.OwnerTags{Installation: "elsewhere"}); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("deletion with other tags: %v", err)
	}
	testutil.Must(t, again.Delete(t.Context(), made.ID, marks))
	if list, err := again.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("instances are %v, %v", list, err)
	}
}

func TestImageUploadedToReplacementIsListed(t *testing.T) {
	store := openReplacement(t, sandbox.Replace(unreachable{t})).(drivers.ImageStore)
	marks := resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: "1"}
	made, err := store.UploadImage(t.Context(), drivers.ImageSpec{Marks: marks, Name: "debian", Format: store.ImageFormat()}, strings.NewReader("content"))
	testutil.Must(t, err)
	if list, err := store.ListImages(t.Context()); err != nil || len(list) != 1 || list[0].Format != "raw" || list[0].Size != 7 {
		t.Fatalf("images are %v, %v", list, err)
	}
	testutil.Must(t, store.DeleteImage(t.Context(), made.ID, marks))
	if list, err := store.ListImages(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("images are %v, %v", list, err)
	}
}
