package plan

import "github.com/npctl/npctl/resources"

// imageAddress returns the address of an image block.
func imageAddress(kind resources.ImageKind, name string) Address {
	return Address(string(kind) + "." + name)
}

// ProviderAddress returns the address of a provider block.
func ProviderAddress(name string) Address { return Address("provider." + name) }
func nodeAddress(id string) Address       { return Address("node." + id) }
func uploadAddress(provider, image string) Address {
	return ProviderAddress(provider) + Address(".image."+image)
}
func poolAddress(provider, pool string) Address {
	return ProviderAddress(provider) + Address(".pool."+pool)
}

// OfferAddress returns the address of a label block in a pool.
func OfferAddress(provider, pool, label string) Address {
	return poolAddress(provider, pool) + Address(".label."+label)
}
