package state

import "strings"

// ProviderLock returns the name of the lock of the process that manages a provider in a shared store.
func ProviderLock(provider string) string { return "provider " + provider }

// ImagesLock is the name of the lock of the process that deletes leaked images in a shared store.
const ImagesLock = "images"

// ImageLock returns the name of the lock of the process that builds, converts, uploads or deletes builds of an image in
// a shared store.
func ImageLock(image string) string { return "image " + image }

// IsImageLock reports whether a lock is for an image or for leaked images.
func IsImageLock(name string) bool {
	return name == ImagesLock || strings.HasPrefix(name, ImageLock(""))
}
