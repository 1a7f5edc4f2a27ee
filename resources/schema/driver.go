package schema

// Driver is the schema that a driver adds to the attributes that every provider has.
type Driver struct {
	Doc        string // one paragraph, Markdown, for the reference
	Provider   Block
	Pool       Block
	Label      Block // attributes that Pool also has default to the pool's value
	CloudImage Block
	Image      Block // settings of a provider for an uploaded image
	Node       Block
	// HasLabels, HasNodes, HasImages and HasCloudImages state which blocks the driver supports.
	HasLabels, HasNodes, HasImages, HasCloudImages bool
	// Formats lists the image formats that the driver can upload, the preferred one first.
	Formats []string
}
