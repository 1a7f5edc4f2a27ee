package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const imageRejectDescription = `Forbids launches from a build, by default the newest one: nodes boot from the newest other build, until
npctl image promote. Nodes that run from it stay, and so do its uploads. Without another build, no node of
the image is launched in that provider.

npctl itself returns to the older build after launch_attempts launches in a row have failed: see
docs/rollouts.md.

Examples:
  npctl image reject debian -reason="no network in the guest"
  npctl image reject debian -build=4f0c -provider=vexxhost

Exit codes: 0 it is rejected, 1 error.`

const imagePromoteDescription = `Allows launches from a build again, by default from the newest one: ends npctl image reject, and
forgets the failed launches after which npctl returned to an older build.

Examples:
  npctl image promote debian
  npctl image promote debian -build=4f0c -provider=vexxhost

Exit codes: 0, or 1 on an error.`

// imageVerdictCommand implements npctl image reject and npctl image promote.
type imageVerdictCommand struct {
	imageCommand
	reject                  bool
	build, provider, reason string
}

func newImageRejectCommand(a *app) *cli.Command {
	c := &imageVerdictCommand{imageCommand: imageCommand{app: a}, reject: true}
	return &cli.Command{
		Name: "reject", Usage: "forbid launches from a build", ArgsUsage: "NAME", Description: imageRejectDescription, Metadata: takes(imageNames),
		Flags: c.verdictFlags(&cli.StringFlag{Name: "reason", Destination: &c.reason, Usage: "a `TEXT` to show with it"}), Action: c.run,
	}
}

func newImagePromoteCommand(a *app) *cli.Command {
	c := &imageVerdictCommand{imageCommand: imageCommand{app: a}}
	return &cli.Command{
		Name: "promote", Usage: "allow launches from a build again", ArgsUsage: "NAME", Description: imagePromoteDescription, Metadata: takes(imageNames),
		Flags: c.verdictFlags(), Action: c.run,
	}
}

func (c *imageVerdictCommand) verdictFlags(more ...cli.Flag) []cli.Flag {
	return append(append(more,
		&stringFlag{cli.StringFlag{Name: "build", Category: categorySelection, Destination: &c.build, Value: newestWord, Usage: "the build with this `ID` instead of the newest that is ready"}, records(resources.KindBuild)},
		&stringFlag{cli.StringFlag{Name: "provider", Category: categorySelection, Destination: &c.provider, Usage: "only in the provider of this `NAME`"}, providerNames},
		c.jsonFlag()), c.flags()...)
}

// verdictDocument is the document that reject and promote print with -json.
type verdictDocument struct {
	FormatVersion string         `json:"format_version"`
	Uploads       []verdictFacts `json:"uploads"`
}

// verdictFacts are about one upload of the build. Boot is the build from which nodes boot now.
type verdictFacts struct {
	Provider string `json:"provider"`
	Build    string `json:"build"`
	Rejected bool   `json:"rejected"`
	Changed  bool   `json:"changed"`
	Boot     string `json:"boot_build,omitempty"`
}

func (c *imageVerdictCommand) run(ctx context.Context, cmd *cli.Command) error {
	name, err := oneImage(cmd)
	if err != nil {
		return err
	}
	world, err := c.loadState(ctx, c.variableOptions, namesOnly)
	if err != nil {
		return err
	}
	ref, err := findImage(world.Refs(), name)
	if err != nil {
		return err
	}
	uploads, err := c.uploads(world, ref.Name)
	if err != nil {
		return err
	}
	store, err := c.openForImages(ctx, world)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // committed records stay
	var told []verdictFacts
	objects := []string{ref.String() + " build " + uploads[0].Build}
	err = c.audited(ctx, store, resources.Audit{Operation: cmd.FullName()[len("npctl "):], Objects: objects, Summary: c.reason}, func() error {
		told, err = c.write(ctx, store, world, uploads)
		return err
	})
	if err != nil || c.json {
		return errors.Join(err, c.printVerdicts(told))
	}
	for _, one := range told {
		if err := c.ui.Print("%s", visibleLine(c.sentence(ref.Name, one))); err != nil {
			return err
		}
	}
	return nil
}

// printVerdicts prints the document of -json, unless nothing was written.
func (c *imageVerdictCommand) printVerdicts(told []verdictFacts) error {
	if told == nil {
		return nil
	}
	return c.printJSON(verdictDocument{jsonVersion, told})
}

// uploads returns the ready uploads of the build.
func (c *imageVerdictCommand) uploads(world imageState, image string) ([]*resources.Upload, error) {
	b, err := findBuild(world.Observed.Records, image, c.build)
	if err != nil {
		return nil, err
	}
	found := keepOf(inspect.UploadsOf(world.Observed.Records, image), func(u *resources.Upload) bool {
		return u.Build == b.ID && u.State == resources.StateReady && (c.provider == "" || u.Provider == c.provider)
	})
	if len(found) == 0 {
		return nil, hint(fmt.Errorf("build %s of %s has no ready upload%s", short(b.ID), image, in(c.provider)), "npctl image show "+image+" shows its uploads")
	}
	return found, nil
}

// in returns " in NAME", or "" for all providers.
func in(provider string) string {
	if provider == "" {
		return ""
	}
	return " in " + provider
}

// write changes the trials of uploads, and returns from which build nodes boot after it.
func (c *imageVerdictCommand) write(ctx context.Context, store state.Store, world imageState, uploads []*resources.Upload) ([]verdictFacts, error) {
	told := []verdictFacts{}
	records := world.Observed.Records
	for _, u := range uploads {
		trial, changed := resources.Trial{Upload: u.ID, Build: u.Build}, false
		if before := plan.TrialsOf(records, u.Image, u.Provider)[u.ID]; before != nil {
			trial = *before
		}
		if c.reject {
			now := c.auditNow(resources.Audit{})
			changed, trial.Rejected = trial.Rejected == nil, &resources.Rejection{Time: now.Time, Actor: now.Actor, Reason: c.reason}
		} else {
			changed = trial.Rejected != nil || trial.Failures > 0
			trial.Rejected, trial.Failures, trial.Since, trial.Failed, trial.Error = nil, 0, time.Time{}, time.Time{}, ""
		}
		if changed || c.reject {
			if _, err := store.Commit(ctx, state.Op{Record: &trial, Force: true}); err != nil {
				return nil, err
			}
		}
		records.Put(&trial, 0)
		fact := verdictFacts{Provider: u.Provider, Build: u.Build, Rejected: c.reject, Changed: changed}
		if boot := plan.BootChoiceOf(world.Desired, records, u.Image, u.Provider).Upload; boot != nil {
			fact.Boot = boot.Build
		}
		told = append(told, fact)
	}
	return told, nil
}

// sentence describes the state of an image in a provider after the command.
func (c *imageVerdictCommand) sentence(image string, f verdictFacts) string {
	boots := fmt.Sprintf("new nodes of %s in %s boot from build %s", image, f.Provider, short(f.Boot))
	if f.Boot == "" {
		boots = fmt.Sprintf("no node of %s is launched in %s, because there is no other build", image, f.Provider)
	}
	what := map[[2]bool]string{
		{true, true}: "is rejected", {true, false}: "was rejected already",
		{false, true}: "is used again", {false, false}: "was neither rejected nor failing",
	}[[2]bool{c.reject, f.Changed}]
	return fmt.Sprintf("Build %s %s: %s.", short(f.Build), what, boots)
}
