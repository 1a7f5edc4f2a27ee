package main

import (
	"context"
	"fmt"

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

const imagePromoteDescription = `Allows launches from a build, by default from the newest one: ends npctl image reject and a rejection by
test nodes, forgets the failed launches after which npctl returned to an older build, and replaces the
validation of the build.

Examples:
  npctl image promote debian
  npctl image promote debian -build=4f0c -provider=vexxhost

Exit codes: 0, or 1 on an error.`

const imagePinDescription = `Lets nodes boot from one build until npctl image unpin, although newer ones are built and uploaded. A
pinned build stays beyond the number to keep, and launches do not return from it when they fail.

Examples:
  npctl image pin debian -build=4f0c -reason="kernel regression, see INFRA-17"
  npctl image pin debian -build=4f0c -provider=vexxhost

Exit codes: 0 it is pinned, 1 error.`

const imageUnpinDescription = `Ends npctl image pin: nodes boot from the newest build again.

Example:
  npctl image unpin debian

Exit codes: 0, or 1 on an error.`

// imageDecision is a decision about the launches from a build.
type imageDecision int

const (
	decideReject imageDecision = iota
	decidePromote
	decidePin
	decideUnpin
)

// imageDecisionCommand implements npctl image reject, promote, pin and unpin.
type imageDecisionCommand struct {
	imageCommand
	what                    imageDecision
	build, provider, reason string
}

func newImageDecisionCommand(a *app, what imageDecision, name, usage, description string) *cli.Command {
	c := &imageDecisionCommand{imageCommand: imageCommand{app: a}, what: what}
	flags := []cli.Flag{&stringFlag{cli.StringFlag{Name: "provider", Category: categorySelection, Destination: &c.provider, Usage: "only in the provider of this `NAME`"}, providerNames}, c.jsonFlag()}
	if what != decideUnpin {
		flags = append(flags, &stringFlag{cli.StringFlag{Name: "build", Category: categorySelection, Destination: &c.build, Value: newestWord, Usage: "the build with this `ID` instead of the newest that is ready"}, records(resources.KindBuild)})
	}
	if what == decideReject || what == decidePin {
		flags = append(flags, &cli.StringFlag{Name: "reason", Destination: &c.reason, Usage: "a `TEXT` to show with it"})
	}
	return &cli.Command{Name: name, Usage: usage, ArgsUsage: "NAME", Description: description, Metadata: takes(imageNames), Flags: append(flags, c.flags()...), Action: c.run}
}

func newImageDecisionCommands(a *app) []*cli.Command {
	return []*cli.Command{
		newImageDecisionCommand(a, decideReject, "reject", "forbid launches from a build", imageRejectDescription),
		newImageDecisionCommand(a, decidePromote, "promote", "allow launches from a build again", imagePromoteDescription),
		newImageDecisionCommand(a, decidePin, "pin", "let nodes boot from one build", imagePinDescription),
		newImageDecisionCommand(a, decideUnpin, "unpin", "let nodes boot from the newest build again", imageUnpinDescription),
	}
}

// decisionDocument is the document that these commands print with -json.
type decisionDocument struct {
	FormatVersion string          `json:"format_version"`
	Uploads       []decisionFacts `json:"uploads"`
}

// decisionFacts are about one upload of the build. Boot is the build from which nodes boot now.
type decisionFacts struct {
	Provider string `json:"provider"`
	Build    string `json:"build"`
	Rejected bool   `json:"rejected"`
	Pinned   bool   `json:"pinned"`
	Changed  bool   `json:"changed"`
	Boot     string `json:"boot_build,omitempty"`
}

func (c *imageDecisionCommand) run(ctx context.Context, cmd *cli.Command) error {
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
	told := []decisionFacts{}
	objects := []string{ref.String()}
	if c.build != "" && len(uploads) > 0 {
		objects[0] += " build " + uploads[0].Build
	}
	err = c.audited(ctx, store, resources.Audit{Operation: "image " + cmd.Name, Objects: objects, Summary: c.reason}, func() error {
		told, err = c.write(ctx, store, world, ref.Name, uploads)
		return err
	})
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printJSON(decisionDocument{jsonVersion, told})
	case len(told) == 0:
		return c.ui.Print("%s", visibleLine("No build of "+ref.Name+" was pinned"+in(c.provider)+"."))
	}
	for _, one := range told {
		if err := c.ui.Print("%s", visibleLine(c.sentence(ref.Name, one))); err != nil {
			return err
		}
	}
	return nil
}

// uploads returns the ready uploads of the build, or the pinned uploads of the image to unpin.
func (c *imageDecisionCommand) uploads(world imageState, image string) ([]*resources.Upload, error) {
	r := world.Observed.Records
	all := keepOf(inspect.UploadsOf(r, image), func(u *resources.Upload) bool {
		return u.State == resources.StateReady && (c.provider == "" || u.Provider == c.provider)
	})
	if c.what == decideUnpin {
		return keepOf(all, func(u *resources.Upload) bool { return trialOf(r, u).Pinned != nil }), nil
	}
	b, err := findBuild(r, image, c.build)
	if err != nil {
		return nil, err
	}
	found := keepOf(all, func(u *resources.Upload) bool { return u.Build == b.ID })
	if len(found) == 0 {
		return nil, hint(fmt.Errorf("build %s of %s has no ready upload%s", short(b.ID), image, in(c.provider)), "npctl image show "+image+" shows its uploads")
	}
	for _, u := range found {
		switch t := trialOf(r, u); {
		case c.what == decidePin && t.Rejected != nil:
			return nil, hint(fmt.Errorf("build %s of %s is rejected in %s", short(b.ID), image, u.Provider), "npctl image promote "+image+" -build="+short(b.ID)+" first")
		case c.what == decideReject && t.Pinned != nil:
			return nil, hint(fmt.Errorf("build %s of %s is pinned in %s", short(b.ID), image, u.Provider), "npctl image unpin "+image+" first")
		}
	}
	return found, nil
}

func trialOf(r plan.Records, u *resources.Upload) resources.Trial {
	return plan.TrialsOf(r, u.Image, u.Provider).Of(u)
}

// in returns " in NAME", or "" for all providers.
func in(provider string) string {
	if provider == "" {
		return ""
	}
	return " in " + provider
}

// write changes the trials of uploads, and returns from which build nodes boot after it. A pin replaces that of another build.
func (c *imageDecisionCommand) write(ctx context.Context, store state.Store, world imageState, image string, uploads []*resources.Upload) ([]decisionFacts, error) {
	told := []decisionFacts{}
	records, img := world.Observed.Records, world.Desired.Image(image)
	now := c.auditNow(resources.Audit{})
	decision := &resources.Decision{Time: now.Time, Actor: now.Actor, Reason: c.reason}
	put := func(t resources.Trial) error {
		records.Put(&t, 0)
		_, err := store.Commit(ctx, state.Op{Record: &t, Force: true})
		return err
	}
	for _, u := range uploads {
		t, changed := trialOf(records, u), false
		switch c.what {
		case decideReject:
			changed, t.Rejected = t.Rejected == nil, decision
		case decidePromote:
			changed = t.Rejected != nil || t.Failures > 0
			t.Rejected = nil
			if img != nil && img.Validate != nil && !plan.IsValidated(u, &t) {
				changed, t.Validated = true, now.Time
			}
			if img != nil && img.Rollout != nil && t.Completed.IsZero() {
				changed, t.Completed = true, now.Time
			}
			t.ForgetFailures()
		case decidePin:
			for _, other := range inspect.UploadsOf(records, image) {
				if before := trialOf(records, other); other.Provider == u.Provider && other.ID != u.ID && before.Pinned != nil {
					before.Pinned = nil
					if err := put(before); err != nil {
						return nil, err
					}
				}
			}
			changed, t.Pinned = t.Pinned == nil, decision
		case decideUnpin:
			changed, t.Pinned = true, nil
		}
		if changed || c.reason != "" {
			if err := put(t); err != nil {
				return nil, err
			}
		}
		fact := decisionFacts{Provider: u.Provider, Build: u.Build, Rejected: t.Rejected != nil, Pinned: t.Pinned != nil, Changed: changed}
		if boot := plan.BootChoiceOf(world.Desired, records, image, u.Provider).Upload; boot != nil {
			fact.Boot = boot.Build
		}
		told = append(told, fact)
	}
	return told, nil
}

// decisionWords describe what a command has done, if it has changed something or not.
var decisionWords = map[imageDecision][2]string{
	decideReject:  {"is rejected", "was rejected already"},
	decidePromote: {"is used again", "was used already"},
	decidePin:     {"is pinned", "was pinned already"},
	decideUnpin:   {"is not pinned any more", ""},
}

// sentence describes the state of an image in a provider after the command.
func (c *imageDecisionCommand) sentence(image string, f decisionFacts) string {
	boots := fmt.Sprintf("new nodes of %s in %s boot from build %s", image, f.Provider, short(f.Boot))
	if f.Boot == "" {
		boots = fmt.Sprintf("no node of %s is launched in %s, because there is no other build", image, f.Provider)
	}
	words := decisionWords[c.what]
	what := words[1]
	if f.Changed {
		what = words[0]
	}
	return fmt.Sprintf("Build %s %s: %s.", short(f.Build), what, boots)
}
