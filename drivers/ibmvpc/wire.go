package ibmvpc

import "time"

// The parts of the VPC API that npctl uses. The test with the tag integration compares them with IBM's library.

// reference is an object in a response.
type reference struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	CRN  string `json:"crn"`
}

func (r reference) is(nameOrID string) bool { return r.Name == nameOrID || r.ID == nameOrID }

func (r reference) name() string { return r.Name }

// byID and byName identify an object in a request.
type byID struct {
	ID string `json:"id"`
}

type byName struct {
	Name string `json:"name"`
}

type instance struct {
	reference

	CreatedAt time.Time      `json:"created_at"`
	Status    string         `json:"status"`
	Reasons   []statusReason `json:"status_reasons"`
	Memory    int64          `json:"memory"` // GiB
	VCPU      struct{ Count int64 }
	Profile   reference
	Zone      reference
	Image     reference
	Interface networkInterface `json:"primary_network_interface"`
}

type statusReason struct{ Code, Message string }

type networkInterface struct {
	reference

	PrimaryIP struct{ Address string } `json:"primary_ip"`
	Subnet    reference
}

type newInstance struct {
	Name             string              `json:"name"`
	Profile          byName              `json:"profile"`
	VPC              byID                `json:"vpc"`
	Zone             byName              `json:"zone"`
	Image            byID                `json:"image"`
	Keys             []byID              `json:"keys,omitempty"`
	UserData         string              `json:"user_data,omitempty"`
	ResourceGroup    *byID               `json:"resource_group,omitempty"`
	BootVolume       bootVolume          `json:"boot_volume_attachment"`
	PrimaryInterface newNetworkInterface `json:"primary_network_interface"`
}

type bootVolume struct {
	Delete bool      `json:"delete_volume_on_instance_delete"`
	Volume newVolume `json:"volume"`
}

type newVolume struct {
	Name     string   `json:"name"`
	Profile  byName   `json:"profile"`
	Capacity int64    `json:"capacity,omitempty"`
	UserTags []string `json:"user_tags"`
}

type newNetworkInterface struct {
	Name           string `json:"name"`
	Subnet         byID   `json:"subnet"`
	SecurityGroups []byID `json:"security_groups,omitempty"`
}

type volume struct {
	reference

	UserTags    []string `json:"user_tags"`
	Attachments []struct {
		Instance reference
	} `json:"volume_attachments"`
}

type floatingIP struct {
	reference

	Address string
	Target  *floatingIPTarget
}

type floatingIPTarget struct {
	reference

	Href string
}

type newFloatingIP struct {
	Name          string `json:"name"`
	Target        byID   `json:"target"`
	ResourceGroup *byID  `json:"resource_group,omitempty"`
}

// cloudImage is an image of the VPC API.
type cloudImage struct {
	reference

	Href            string
	CreatedAt       time.Time      `json:"created_at"`
	Status          string         `json:"status"`
	Reasons         []statusReason `json:"status_reasons"`
	Visibility      string
	OperatingSystem operatingSystem `json:"operating_system"`
	File            struct {
		Checksums struct{ SHA256 string }
	}
}

type operatingSystem struct {
	Name, Family, Vendor, Version, Architecture, Href string

	DisplayName       string `json:"display_name"`
	DedicatedHostOnly bool   `json:"dedicated_host_only"`
}

type newImage struct {
	Name            string    `json:"name"`
	File            imageFile `json:"file"`
	OperatingSystem byName    `json:"operating_system"`
	ResourceGroup   *byID     `json:"resource_group,omitempty"`
}

type imageFile struct {
	Href string `json:"href"` // cos://region/bucket/object
}
