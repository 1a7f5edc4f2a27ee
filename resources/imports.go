package resources

import (
	"fmt"
	"regexp"
	"time"
)

// Import names an object of a cloud that npctl adopts: a server as a node, or an image as a build with an upload.
type Import struct {
	Provider string
	Pool     string // of a server
	Label    string // of a server
	Image    string // name of the image block; empty for a server
	ID       string // of the object in the cloud
	State    State  // of the node: StateHold or StateReady
	Source   Source
}

// Kind returns the kind of record that the object becomes: KindNode or KindUpload.
func (i *Import) Kind() Kind {
	if i.Image != "" {
		return KindUpload
	}
	return KindNode
}

// Address returns the address of the block that the object is imported into.
func (i *Import) Address() string {
	if i.Image != "" {
		return "provider." + i.Provider + ".image." + i.Image
	}
	return "provider." + i.Provider + ".pool." + i.Pool + ".label." + i.Label
}

// The addresses that an object can be imported into. Names of providers, pools and images may contain dots.
var (
	importLabel = regexp.MustCompile(`^provider\.(.+?)\.pool\.(.+?)\.label\.(.+)$`)
	importImage = regexp.MustCompile(`^provider\.(.+?)\.image\.(.+)$`)
)

// ParseImport returns the import of an object into an address.
func ParseImport(address, id string) (Import, error) {
	if m := importLabel.FindStringSubmatch(address); m != nil {
		return Import{Provider: m[1], Pool: m[2], Label: m[3], ID: id, State: StateHold}, nil
	}
	if m := importImage.FindStringSubmatch(address); m != nil {
		return Import{Provider: m[1], Image: m[2], ID: id}, nil
	}
	return Import{}, fmt.Errorf("%q is not an address to import into; a server is imported into provider.NAME.pool.NAME.label.NAME, an image into provider.NAME.image.NAME", address)
}

// ExistingObject is a server or an image of a cloud, of any owner.
type ExistingObject struct {
	Instance Instance    // of a server
	Image    RemoteImage // of an image
	Program  string      // the program of other tags, such as `Nodepool (provider one, node 0000000012)`; empty without such tags
	// Settings are the attributes of a label block with which the cloud describes a server, such as flavor and networks.
	Settings map[string][]string
	BootedOf string // of a server: name or ID of its image
}

// ObjectFacts are the attributes that servers and images have.
type ObjectFacts struct {
	ID, Name string
	Marks    OwnerTags
	Status   Status
	Created  time.Time
}

// Facts returns the attributes of the object.
func (o *ExistingObject) Facts() ObjectFacts {
	if i := o.Image; i.ID != "" {
		return ObjectFacts{i.ID, i.Name, i.Marks, i.Status, i.Created}
	}
	i := o.Instance
	return ObjectFacts{i.ID, i.Name, i.Marks, i.Status, i.Created}
}
