package metrics

import (
	"time"

	"github.com/npctl/npctl/resources"
)

func (s scrape) images() {
	made := s.newestBuilds()
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
		if at, ok := made[img.Name]; ok {
			s.gauge("npctl_image_age_seconds", s.Observed.Now.Sub(at).Seconds(), img.Name)
		}
	}
	s.uploads()
	var size int64
	for _, f := range s.Observed.Files {
		size += f.Size
	}
	s.gauge("npctl_image_files_bytes", float64(size))
}

// newestBuilds returns the creation time of the newest ready build of each image.
func (s scrape) newestBuilds() map[string]time.Time {
	made := map[string]time.Time{}
	for _, b := range s.Observed.Records.Builds {
		if at := builtAt(b); b.State == resources.StateReady && at.After(made[b.Image]) {
			made[b.Image] = at
		}
	}
	return made
}

// builtAt returns the creation time of a build's content: the time of its version for an image from an external source,
// otherwise that of the build.
func builtAt(b *resources.Build) time.Time {
	if !b.VersionTime.IsZero() {
		return b.VersionTime
	}
	return b.Created
}

func (s scrape) uploads() {
	builds := make(map[string]*resources.Build, len(s.Observed.Records.Builds))
	for _, b := range s.Observed.Records.Builds {
		builds[b.ID] = b
	}
	type upload struct{ image, provider string }
	newest := map[upload]time.Time{}
	for _, u := range s.Observed.Records.Uploads {
		if u.State != resources.StateReady {
			continue
		}
		at := u.Created
		if b := builds[u.Build]; b != nil {
			at = builtAt(b)
		}
		if of := (upload{u.Image, u.Provider}); at.After(newest[of]) {
			newest[of] = at
		}
	}
	for of, at := range newest {
		s.gauge("npctl_image_upload_age_seconds", s.Observed.Now.Sub(at).Seconds(), of.image, of.provider)
	}
}
