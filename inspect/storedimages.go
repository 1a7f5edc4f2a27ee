package inspect

import (
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// Stored returns the configured and recorded images with their records, sorted by name.
func (w *Fleet) Stored() []wire.Image {
	list := []wire.Image{}
	for _, ref := range w.Refs() {
		record := ImageRecord(w.Observed.Records, ref.Name)
		one := wire.Image{Name: ref.Name, Kind: ref.Kind, Paused: record.Paused, PauseReason: record.PauseReason, Failure: record.Failure,
			UploadFailures: record.Uploads, Builds: []resources.Build{}, Uploads: []resources.Upload{}}
		if img := ConfiguredImage(w.Desired, ref.Name); img != nil {
			one.Configured, one.Paused = true, one.Paused || img.Pause
		}
		for _, b := range BuildsOf(w.Observed.Records, ref.Name) {
			one.Builds = append(one.Builds, *b)
		}
		for _, u := range UploadsOf(w.Observed.Records, ref.Name) {
			one.Uploads = append(one.Uploads, *u)
		}
		list = append(list, one)
	}
	return list
}
