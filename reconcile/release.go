package reconcile

import (
	"context"
	"fmt"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// releaseObject removes the ownership tags of the server of a node or the image of an upload, and then the record. The
// record is the intent: if npctl stops in between, the next plan repeats both. An object without tags and with a record is
// never deleted, and one without a record has no tags.
func (x *execution) releaseObject(ctx context.Context, s plan.Step) error {
	adopter, done, err := x.adopter(ctx, s)
	defer done()
	if err != nil {
		return err
	}
	if err := x.cache.claims.awaitConnected(ctx, s.ID); err != nil {
		return err
	}
	marks := resources.OwnerTags{Installation: x.seen.Installation, Kind: s.Record.Kind, ID: s.Record.ID}
	if err := adopter.Release(ctx, s.External, marks); err != nil {
		return fmt.Errorf("release %s, which keeps its record: %w", s.External, err)
	}
	return x.cache.drop(ctx, s.Record)
}

// releaseBuild removes the record of a build whose files stay, after it has moved those of this host.
func (x *execution) releaseBuild(ctx context.Context, s plan.Step) error {
	if err := x.files().forgetBuild(s.Build); err != nil {
		return fmt.Errorf("keep the files of build %s: %w", s.Build, err)
	}
	return x.cache.drop(ctx, s.Record)
}
