package zookeeper

import (
	"context"
	"errors"
	"strconv"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// The ownership tags in clouds carry the IDs of nodes and uploads. An ID that ZooKeeper has not assigned yet means that
// ZooKeeper is older than the cloud: it was restored from a backup.

// noteSightings sets NewerThanState in sightings of such IDs and reserves the IDs.
func (p *privateRecords) noteSightings(ctx context.Context, changes []*change) error {
	for _, c := range changes {
		sighting, ok := c.Record.(*resources.Sighting)
		if !ok || sighting.Record.Kind != resources.KindNode && sighting.Record.Kind != resources.KindUpload {
			continue
		}
		id, err := strconv.ParseUint(sighting.Record.ID, 10, 64)
		if err != nil || len(sighting.Record.ID) != sequenceLength {
			continue
		}
		last, err := p.numbers.last(ctx, sighting.Record.Kind)
		if err != nil {
			return err
		}
		if id <= last {
			continue
		}
		record := *sighting
		record.NewerThanState = true
		c.Record = &record
		if err := p.numbers.reserve(ctx, sighting.Record.Kind, id); err != nil && !p.session.readOnly {
			var refusal state.InvalidError
			if !errors.As(err, &refusal) {
				return err
			}
			p.log.Warn("IDs from a cloud cannot be reserved", "provider", sighting.Provider, "id", sighting.Record.ID, "error", err)
		}
	}
	return nil
}
