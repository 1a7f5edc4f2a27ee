package metrics

import (
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/resources"
)

func (s scrape) images() {
	newest := inspect.NewestReadyBuilds(s.Observed.Records)
	remembered := map[string]*resources.ImageRecord{}
	for _, r := range s.Observed.Records.Images {
		remembered[r.Name] = r
	}
	for i := range s.Desired.Images {
		img := &s.Desired.Images[i]
		failures, paused := 0, img.Pause
		if r := remembered[img.Name]; r != nil {
			paused = paused || r.Paused
			if r.Failure != nil {
				failures = r.Failure.Count
			}
		}
		s.gauge("npctl_image_failures", float64(failures), img.Name)
		s.gauge("npctl_image_paused", number(paused), img.Name)
		if b := newest[img.Name]; b != nil {
			s.gauge("npctl_image_age_seconds", s.Observed.Now.Sub(builtAt(b)).Seconds(), img.Name)
		}
	}
	s.uploads()
	var size int64
	for _, f := range s.Observed.Files {
		size += f.Size
	}
	s.gauge("npctl_image_files_bytes", float64(size))
}

// builtAt returns the creation time of a build's content: the time of its version for an image from an external source,
// otherwise that of the build.
func builtAt(b *resources.Build) time.Time {
	if !b.VersionTime.IsZero() {
		return b.VersionTime
	}
	return b.Created
}

// uploads exports the age of the upload from which new nodes in each provider boot.
func (s scrape) uploads() {
	builds := inspect.BuildsByID(s.Observed.Records)
	for _, u := range inspect.CurrentUploads(s.Observed.Records) {
		at := u.Created
		if b := builds[u.Build]; b != nil {
			at = builtAt(b)
		}
		s.gauge("npctl_image_upload_age_seconds", s.Observed.Now.Sub(at).Seconds(), u.Image, u.Provider)
	}
}
