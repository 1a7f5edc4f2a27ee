package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// BenchmarkStateList6000Nodes measures a whole process, from its start to its end.
func BenchmarkStateList6000Nodes(b *testing.B) {
	dir := b.TempDir()
	npctl := filepath.Join(dir, "npctl")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", npctl, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build npctl: %v\n%s", err, out)
	}
	path := filepath.Join(dir, "npctl.db")
	fillState(b, path, 6000)
	for b.Loop() {
		out, err := exec.Command(npctl, "-state="+path, "state", "list").Output()
		testutil.Must(b, err)
		if n := bytes.Count(out, []byte("\n")); n != 6000 {
			b.Fatalf("state list printed %d lines, want 6000", n)
		}
	}
}

// fillState creates a state with the given number of nodes, with all fields of real nodes.
func fillState(b *testing.B, path string, nodes int) {
	store, err := bolt.Open(bolt.Options{Path: path, Version: "bench"})
	testutil.Must(b, err)
	defer store.Close() //nolint:errcheck // all records are committed
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	ops := make([]state.Op, nodes)
	for i := range ops {
		ops[i].Record = &resources.Node{State: resources.StateReady, StateTime: now, Created: now, Provider: "vexxhost", Pool: "main",
			Labels: []string{"debian-small"}, Hash: "v1:fb747977fdc95272f21b995fb2ccf190", ExternalID: fmt.Sprintf("0b26c5df-3bcf-46a3-bb6d-%012d", i),
			Image: "diskimage.debian", ImageID: "c95c1d46-6eea-4e1f-9483-9391ab953f23", Upload: "0000000001", Attempt: 1,
			Addresses: resources.Addresses{Interface: "198.51.100.7", PublicIPv4: "198.51.100.7", PrivateIPv4: "10.0.0.7"},
			Zone:      "az1", Cloud: "vexxhost", Region: "ca-ymq-1", Hostname: fmt.Sprintf("np%010d", i),
			Login:     resources.Login{Username: "zuul", PythonPath: "auto", ConnectionType: "ssh", ConnectionPort: 22},
			HostKeys:  []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnC0nQ8yYq7yGkq6Yz0k9vP3pT5wE1rS2uV4xZ6aB8c"},
			Resources: resources.ResourceAmounts{Instances: 1, Cores: 2, RAM: 4096}, Seconds: 42}
	}
	if _, err := store.Commit(b.Context(), ops...); err != nil {
		b.Fatal(err)
	}
}
