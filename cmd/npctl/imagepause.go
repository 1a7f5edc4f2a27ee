package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const imagePauseDescription = `Stops builds of images until npctl image unpause. Existing builds stay, are uploaded where they are
missing, and nodes boot from them. The state records the pause, so it applies to every npctl that uses
the state.

A running apply finishes its plan. To pause uploads to one provider, set pause = true in its image
block.

Examples:
  npctl image pause debian
  npctl image pause debian ubuntu -reason="mirror is broken, see INFRA-17"

Exit codes: 0 they are paused, 1 error.`

const imageUnpauseDescription = `Ends npctl image pause. pause = true in the configuration stays in force.

Example:
  npctl image unpause debian

Exit codes: 0, or 1 on an error.`

// imagePauseCommand implements npctl image pause and npctl image unpause.
type imagePauseCommand struct {
	imageCommand
	paused bool
	reason string
}

func newImagePauseCommand(a *app) *cli.Command {
	c := &imagePauseCommand{imageCommand: imageCommand{app: a}, paused: true}
	return &cli.Command{
		Name: "pause", Usage: "stop builds of images", ArgsUsage: "NAME...", Description: imagePauseDescription, Metadata: takes(imageNames),
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "reason", Destination: &c.reason, Usage: "a `TEXT` to show with it"}, c.jsonFlag(),
		}, c.flags()...), Action: c.run,
	}
}

func newImageUnpauseCommand(a *app) *cli.Command {
	c := &imagePauseCommand{imageCommand: imageCommand{app: a}}
	return &cli.Command{
		Name: "unpause", Usage: "resume builds of images", ArgsUsage: "NAME...", Description: imageUnpauseDescription, Metadata: takes(imageNames),
		Flags: append([]cli.Flag{c.jsonFlag()}, c.flags()...), Action: c.run,
	}
}

type pauseFacts struct {
	Name    string              `json:"name"`
	Address string              `json:"address"`
	Paused  bool                `json:"paused"` // by command or by the configuration
	Changed bool                `json:"changed"`
	Pause   *inspect.ImagePause `json:"pause,omitempty"`
}

func (c *imagePauseCommand) run(ctx context.Context, cmd *cli.Command) error {
	told, err := c.change(ctx, cmd)
	if err != nil {
		return err
	}
	if c.json {
		return c.printDocument(map[string]any{"images": told})
	}
	for _, one := range told {
		if err := c.ui.Print("%s", visibleLine(c.sentence(one))); err != nil {
			return err
		}
	}
	return nil
}

func (c *imagePauseCommand) change(ctx context.Context, cmd *cli.Command) ([]pauseFacts, error) {
	if cmd.NArg() == 0 {
		return nil, hint(errors.New(cmd.FullName()+" needs the name of an image"), "npctl image list shows the images")
	}
	world, err := c.loadState(ctx, c.variableOptions, namesOnly)
	if err != nil {
		return nil, err
	}
	var refs []resources.ImageRef
	for _, name := range cmd.Args().Slice() { // find all images before changing one
		ref, err := findImage(world.Refs(), name)
		if err != nil {
			return nil, err
		}
		if c.paused && world.configError == nil && world.Desired.Image(ref.Name) == nil {
			return nil, hint(fmt.Errorf("image %s is not configured any more and is not built", ref.Name), "npctl image list shows the configured images")
		}
		refs = append(refs, ref)
	}
	return c.write(ctx, world, refs)
}

func (c *imagePauseCommand) write(ctx context.Context, world imageState, refs []resources.ImageRef) (told []pauseFacts, err error) {
	store, err := c.openForImages(ctx, world)
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // committed records stay
	for _, ref := range refs {
		fact := pauseFacts{Name: ref.Name, Address: ref.String()}
		pause := inspect.ImagePause{Command: c.paused, Reason: c.reason}
		if fact.Changed, err = setPaused(ctx, store, ref, c.paused, c.reason); err != nil {
			return nil, err
		}
		if img := world.Desired.Image(ref.Name); img != nil {
			pause.Configuration = img.Pause
		}
		if fact.Paused = pause.Command || pause.Configuration; fact.Paused {
			fact.Pause = &pause
		}
		told = append(told, fact)
	}
	if holder, err := store.Holder(ctx, stateLock); err == nil && holder != nil && c.paused && !c.json {
		c.ui.Message("%s has been running since %s and finishes its plan.", visibleLine(holder.Operation), holder.Since.Local().Format(time.DateTime))
	}
	return told, nil
}

// openForImages opens the state of a loaded configuration for writing, or the state in this directory if the configuration has errors.
func (c *imageCommand) openForImages(ctx context.Context, world imageState) (stateStore, error) {
	place, err := c.stateOf(world.Desired.Settings)
	if world.configError != nil {
		place, err = c.findState()
	}
	if err != nil {
		return nil, err
	}
	return place.open(ctx, writeState)
}

// sentence describes the state of the image after the command.
func (c *imagePauseCommand) sentence(f pauseFacts) string {
	text := f.Name + " is paused: it is not built until npctl image unpause " + f.Name + "."
	switch {
	case c.paused && !f.Changed:
		text = f.Name + " was paused already."
	case !c.paused && f.Changed:
		text = f.Name + " is not paused any more."
	case !c.paused:
		text = f.Name + " was not paused by command."
	}
	if f.Pause != nil && f.Pause.Configuration {
		text += " It is paused in the configuration too: pause = true in its block."
	}
	return text
}

// setPaused records whether an image is paused and reports whether the record changed. It takes no lock, because an
// operator must be able to pause an image while an apply runs for hours; after a conflict it retries.
func setPaused(ctx context.Context, store state.Store, ref resources.ImageRef, paused bool, reason string) (changed bool, err error) {
	key := resources.Key{Kind: resources.KindImage, ID: ref.Name}
	for {
		record, revision := resources.ImageRecord{Name: ref.Name, Kind: ref.Kind}, state.Revision(0)
		entry, err := store.Get(ctx, key)
		switch {
		case err == nil:
			record, revision = *entry.Record.(*resources.ImageRecord), entry.Revision
		case !errors.Is(err, state.ErrNotFound):
			return false, err
		case !paused:
			return false, nil
		}
		if !paused {
			reason = ""
		} else if reason == "" && record.Paused {
			reason = record.PauseReason
		}
		if record.Paused == paused && record.PauseReason == reason {
			return false, nil
		}
		record.Paused, record.PauseReason = paused, reason
		_, err = store.Commit(ctx, state.Op{Record: &record, Revision: revision})
		if !errors.Is(err, state.ErrConflict) {
			return err == nil, err
		}
	}
}
