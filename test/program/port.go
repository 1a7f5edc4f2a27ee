package program

import (
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort is a TCP port at which nobody listened a moment ago. It is below those that Linux gives to connections and to
// whoever asks for any port, so that nobody gets it by chance before it is used, or while what listens at it is restarted.
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
