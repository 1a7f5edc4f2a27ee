package program

import (
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort returns a TCP port that is free at the time of the call. The port is below the ephemeral range of Linux, so
// that no other process gets it by chance before its use or during a restart of its server.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", (&net.TCPAddr{Port: port}).String())
		if err == nil {
			_ = l.Close() // nothing was sent
			return port
		}
	}
	t.Fatal("of 100 ports from 20000 to 31999 none is free")
	return 0
}
