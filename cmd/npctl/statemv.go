package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

const stateMvDescription = `Gives the records of a renamed block their present name, as a moved block does: shows the records, asks,
and writes them. It changes nothing in clouds, replaces nothing, and lists no cloud. Rename the block in
the configuration first, and give all new names in one command. Moves of moved blocks take place too.

FROM and TO, once or several times, are the earlier and the present address of the block, of the same type: provider.NAME,
provider.NAME.pool.NAME, provider.NAME.pool.NAME.node.NAME, label.NAME, diskimage.NAME or
zuul_image.NAME.

While npctl watch runs, or if other processes use the state in ZooKeeper, use a moved block: a record
that is in use there is moved later, and a block is still there then.

Examples:
  npctl state mv -dry-run label.small label.debian-small
  npctl state mv provider.vexxhost provider.vexxhost-ca
  npctl state mv -auto-approve label.small label.debian-small diskimage.debian diskimage.bookworm

Exit codes: 0 no record has the earlier name any more, 1 error, 130 interrupted.`

// stateMvCommand implements npctl state mv.
type stateMvCommand struct {
	applyCommand
}

func newStateMvCommand(a *app) *cli.Command {
	c := &stateMvCommand{applyCommand{app: a, operation: "state mv"}}
	return &cli.Command{
		Name: "mv", Usage: "give the records of a renamed block their present name", ArgsUsage: "FROM TO [FROM TO]...", Description: stateMvDescription, Metadata: events(moveEnds),
		Flags: c.aloneFlags(), Action: c.run,
	}
}

func (c *stateMvCommand) run(ctx context.Context, cmd *cli.Command) error {
	return c.withEvents(func(events *eventWriter) error {
		moves, err := c.namedMoves(cmd.Args().Slice())
		if err != nil {
			return err
		}
		return c.rename(ctx, moves, events)
	})
}

// namedMoves returns the moves that the arguments name.
func (c *stateMvCommand) namedMoves(args []string) (moves resources.Moves, err error) {
	if len(args) == 0 || len(args)%2 != 0 {
		return nil, hint(errors.New("npctl state mv needs the earlier and the present address of each block"), "npctl state mv label.EARLIER label.PRESENT")
	}
	if err := c.checkAlone(); err != nil {
		return nil, err
	}
	for pair := range slices.Chunk(args, 2) {
		from, err := resources.ParseBlockRef(pair[0])
		if err != nil {
			return nil, err
		}
		to, err := resources.ParseBlockRef(pair[1])
		if err != nil {
			return nil, err
		}
		moves = append(moves, resources.Move{From: from, To: to})
	}
	return moves, nil
}

// rename plans and executes the moves alone. The configuration is read with the moves, because hashes depend on it.
func (c *stateMvCommand) rename(ctx context.Context, moves resources.Moves, events *eventWriter) error {
	config, err := c.read(c.variables, config.Options{Moves: moves})
	if err != nil {
		return err
	}
	place, err := c.stateOf(config.Desired.Settings)
	if err != nil {
		return err
	}
	if place.IsEmpty() {
		return place.missing()
	}
	c.refresh, c.moves = false, true
	return c.applyAlone(ctx, config, events, c.checkNoDaemon)
}

// checkNoDaemon rejects moves through npctl watch, which would plan with the earlier names.
func (c *stateMvCommand) checkNoDaemon(s *session) error {
	if _, running := s.store.(*daemonStore); running && !c.dryRun {
		return hint(errors.New("npctl watch is running, and knows the names of the configuration that it read last"),
			"add a moved block to the configuration and run npctl reload, or stop npctl watch first")
	}
	return nil
}

// moveEnds returns the addresses of blocks that records name and the configuration does not, and after one of them the
// configured ones of the same type.
func moveEnds(ctx context.Context, c *completion, _ string) []candidate {
	present := knownAddresses(c.desired(), plan.Records{}, nil)
	if len(c.Args)%2 == 0 {
		earlier := knownAddresses(resources.Desired{}, c.recorded(ctx, livingKinds...), nil)
		return named(keepOf(slices.Compact(slices.Sorted(slices.Values(earlier))), func(at string) bool {
			b := blockOf(at)
			return b.Type != "" && !slices.Contains(present, at)
		}))
	}
	from := blockOf(c.Args[len(c.Args)-1])
	return named(keepOf(present, func(at string) bool {
		b := blockOf(at)
		return from.Type != "" && b.Type == from.Type && b.Provider == from.Provider && b.Pool == from.Pool
	}))
}

// blockOf returns the block of an address, or none for the address of a part of a provider that cannot be renamed.
func blockOf(at string) resources.BlockRef {
	b, err := resources.ParseBlockRef(at)
	if err != nil || b.Type == "provider" && strings.Contains(b.Name, "image.") {
		return resources.BlockRef{}
	}
	return b
}
