//go:build gearman

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// killRounds is the number of rounds.
const killRounds = 15

// kills is a shop in which processes are killed. The same seed makes the same choices, though not at the same moments.
type kills struct {
	*shop
	dice  *rand.Rand
	hosts map[string]*program
	story []string // events of the current round
}

// killedAnywhere kills build hosts, npctl and the job server at random moments while images are built, uploaded and
// replaced. After a restart of all processes nothing may be lost, incomplete or left over.
func killedAnywhere(s *shop) {
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("NPCTL_TEST_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			s.t.Fatal(err)
		}
	}
	s.t.Logf("NPCTL_TEST_SEED=%d", seed)
	k := &kills{shop: s, dice: rand.New(rand.NewPCG(seed, 0)), hosts: map[string]*program{}}
	for name := range hostImages {
		k.hosts[name] = s.host(name)
	}
	s.offered(offers("a b c"))
	for round := range killRounds {
		k.story = []string{fmt.Sprint("round ", round+1)}
		k.round()
		k.settle()
	}
}

func (k *kills) tell(format string, args ...any) {
	k.story = append(k.story, fmt.Sprintf(format, args...))
}

func (k *kills) pause(most time.Duration) {
	d := time.Duration(k.dice.Int64N(int64(most)))
	k.tell("after %s", d.Round(time.Millisecond))
	time.Sleep(d)
}

// round starts an apply and kills one or two processes.
func (k *kills) round() {
	k.t.Helper()
	images := []string{"debian", "fedora"}
	args := []string{"apply", "-auto-approve", "-lock-timeout=20s"}
	for _, image := range images {
		if k.dice.IntN(2) == 0 {
			args = append(args, "-replace=diskimage."+image)
		}
	}
	k.write("faults.json", fmt.Sprintf(`[{"operation": "image.upload", "action": "slow", "delay": "%dms"}]`, 1+k.dice.IntN(400)))
	release := k.hold(images[k.dice.IntN(2)])
	main := k.start("main", args...)
	k.tell("npctl %s", strings.Join(args, " "))
	for range 1 + k.dice.IntN(2) {
		k.pause(700 * time.Millisecond)
		if k.dice.IntN(3) == 0 {
			k.tell("builds are finished")
			release()
		}
		k.kill(main)
	}
	release()
	k.pause(400 * time.Millisecond)
	select {
	case <-main.ended:
		k.tell("npctl ends with %d", main.cmd.ProcessState.ExitCode())
	case <-time.After(3 * time.Second):
		k.tell("npctl is killed")
		main.kill()
	}
	for _, image := range images {
		_ = os.Remove(k.path("hold-" + image))
	}
}

func (k *kills) kill(main *program) {
	k.t.Helper()
	switch victim := []string{"a", "b", "c", "main", "server"}[k.dice.IntN(5)]; victim {
	case "main":
		k.tell("kill npctl")
		main.kill()
	case "server":
		k.tell("kill gearmand")
		k.gearman.Kill()
		k.gearman.Start()
	default:
		k.tell("kill host %s", victim)
		k.hosts[victim].kill()
		k.pause(300 * time.Millisecond)
		k.hosts[victim] = k.host(victim)
	}
}

// settle waits until all processes run, applies until no changes remain, and checks the result.
func (k *kills) settle() {
	k.t.Helper()
	defer func() {
		if k.t.Failed() {
			k.t.Log(strings.Join(k.story, "\n"))
		}
	}()
	k.until("all build hosts", func() (bool, any) {
		f, err := k.functions()
		for name, want := range offers("a b c") {
			if f[name].Workers != want.Workers || f[name].Running > 0 {
				return false, fmt.Sprint(f, err)
			}
		}
		return err == nil, nil
	})
	for try := 0; ; try++ {
		p := k.apply()
		code, out := p.wait()
		k.tell("%s", out)
		if code == 0 && strings.Contains(k.npctlMain("plan").succeeds(), "No changes.") {
			break
		}
		if try == 5 {
			k.t.Fatalf("not settled after %d applies", try)
		}
	}
	builds := k.kept("debian", "fedora")
	copies := k.copies(builds)
	k.everywhereWith(builds, copies)
	k.equal("files of npctl itself", k.onDisk("main"), []string{})
	k.offered(withCopies(offers("a b c", idsOf(builds)...), copies))
}

// copies returns the builds that a second host has, too: its answer was lost because it or the job server was killed just after
// it had finished the build, so another host got the job. The deletion of a build removes it from all hosts.
func (k *kills) copies(builds map[string]build) (copies []copyOf) {
	k.t.Helper()
	for host := range hostImages {
		for id, b := range builds {
			if b.host != host && slices.Contains(k.onDisk(host), b.files(id)[0]) {
				copies = append(copies, copyOf{id, host})
				k.t.Logf("host %s also has build %s of host %s", host, id, b.host)
			}
		}
	}
	return copies
}

func TestRealBuildHostsKilledAnywhere(t *testing.T) {
	t.Parallel()
	killedAnywhere(newShop(t, builtNpctl(t)))
}
