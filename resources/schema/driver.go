package schema

// Driver is what a driver adds to the attributes that every provider has.
type Driver struct {
	Doc        string // one paragraph, Markdown, for the reference
	Provider   Block
	Pool       Block
	Label      Block // attributes that Pool has too default to the pool's value
	CloudImage Block
	Image      Block // provider's settings for an uploaded image
	Node       Block
	// HasLabels, HasNodes, HasImages and HasCloudImages say which blocks make sense for the driver.
	HasLabels, HasNodes, HasImages, HasCloudImages bool
	// Formats lists the image formats the driver can upload, the preferred one first. A driver that lets a provider choose
	// calls the attribute image_format.
	Formats []string
}
