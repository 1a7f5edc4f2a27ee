package drivers

// Attributes with a meaning for npctl are part of the contract. A driver that supports one embeds the struct inline in the
// settings of its block, or declares an attribute of the same name and type.

// Reach are attributes of an offer: they state how npctl verifies that a new node is reachable. Without them a node is
// ready when the cloud reports it as ready.
type Reach struct {
	HostKeyChecking bool `config:"host_key_checking" default:"true" doc:"A node is ready when it presents its SSH host keys."`
}

// Format is an attribute of a provider: the format of uploaded images, instead of the first one of the Formats of the
// driver's schema.
type Format struct {
	ImageFormat string `config:"image_format"`
}
