//go:build integration

package watch

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// machine returns the block of a static machine; all of them are the same sshd.
func machine(m *sshd, name, label string) string {
	return fmt.Sprintf(`
    node %q {
      address         = "127.0.0.1"
      labels          = [%q]
      host_keys       = [%q]
      username        = "root"
      connection_port = %d
      slots           = 2
    }
`, name, label, m.hostKey(), m.port)
}

func machines(blocks ...string) string {
	text := `
npctl { images_dir = "images" }
label "metal" {}
label "iron" {}
provider "static" "rack" {
  pool "main" {
`
	for _, block := range blocks {
		text += block
	}
	return text + "  }\n}\n"
}

func TestMachineInUseIsRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	m := s.newMachine()
	m.start()
	first, other := machine(m, "metal1", "metal"), machine(m, "iron1", "iron")
	s.write(machines(first, other))
	d := s.start()
	testutil.Await(s.t, "all slots are ready", func() bool { return s.census() == "map[ready:4]" })
	f := s.traffic("iron")
	used := s.nodes("metal")[0]
	s.write(machines(other))
	s.reload(0)
	testutil.Await(s.t, "the record of its free slot is removed", func() bool { return len(s.with(wire.NodeFilter{Label: "metal"})) == 1 })
	f.awaitProgress()
	n, err := s.Node(t.Context(), used.ID)
	if err != nil || n.State != resources.StateInUse {
		t.Fatalf("the slot in use is %s, %v", n.State, err)
	}
	if out, err := s.ssh(used, "echo", "hello"); err != nil || out != "hello\n" {
		t.Errorf("ssh to the machine in use: %v: %s", err, out)
	}
	if _, err := s.ReturnNode(t.Context(), used.ID); err != nil {
		t.Fatal(err)
	}
	testutil.Await(s.t, "its record is removed after its return", func() bool {
		_, err := s.Node(t.Context(), used.ID)
		return errors.Is(err, state.ErrNotFound)
	})
	f.end()
	testutil.Await(s.t, "the other machine is unchanged", func() bool { return s.census() == "map[ready:2]" })
	d.Stop()
}

func TestLabelOfMachineInUseIsChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	m := s.newMachine()
	m.start()
	s.write(machines(machine(m, "metal1", "metal"), machine(m, "metal2", "metal")))
	d := s.start()
	testutil.Await(s.t, "all slots are ready", func() bool { return s.census() == "map[ready:4]" })
	var used wire.Node
	var others []wire.Node
	for used = s.nodes("metal")[0]; used.Hostname != "metal1"; used = s.nodes("metal")[0] {
		others = append(others, used)
	}
	for _, n := range others { // possibly both slots of the other machine, which the steps below are to use
		if _, err := s.ReturnNode(t.Context(), n.ID); err != nil {
			t.Fatal(err)
		}
	}
	f := s.traffic("metal")
	s.write(machines(machine(m, "metal1", "iron"), machine(m, "metal2", "metal")))
	s.reload(0)
	fresh := s.nodes("iron")[0]
	if fresh.Hostname != "metal1" || fresh.ID == used.ID {
		t.Errorf("for the new label node %s of %s is assigned", fresh.ID, fresh.Hostname)
	}
	f.awaitProgress()
	n, err := s.Node(t.Context(), used.ID)
	if err != nil || n.State != resources.StateInUse {
		t.Errorf("the slot in use is %s, %v", n.State, err)
	}
	for _, id := range []string{used.ID, fresh.ID} {
		if _, err := s.ReturnNode(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	testutil.Await(s.t, "both slots have only the new label", func() bool {
		nodes := s.with(wire.NodeFilter{Label: "iron", States: []string{"ready"}})
		return len(nodes) == 2 && !slices.ContainsFunc(nodes, func(n wire.Node) bool { return slices.Contains(n.Labels, "metal") })
	})
	f.end()
	d.Stop()
}
