package reconcile

import "sync"

// created holds the IDs of the builds and uploads that a run has created, for the steps that use them.
type created struct {
	mu      sync.Mutex        // guards the fields below
	builds  map[string]string // by image
	uploads map[uploadedTo]string
}

type uploadedTo struct{ image, provider string }

func (c *created) addBuild(image, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.builds == nil {
		c.builds = map[string]string{}
	}
	c.builds[image] = id
}

// build returns the ID of the build of an image, or "".
func (c *created) build(image string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.builds[image]
}

func (c *created) addUpload(image, provider, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uploads == nil {
		c.uploads = map[uploadedTo]string{}
	}
	c.uploads[uploadedTo{image, provider}] = id
}

// upload returns the ID of the upload of an image to a provider, or "".
func (c *created) upload(image, provider string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uploads[uploadedTo{image, provider}]
}
