//go:build integration

package integration

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// sshd plays instances with OpenSSH. The cloud boots nothing, but its addresses belong to this host, so a server
// listens at the address of each instance while the cloud shows it.
type sshd struct {
	at      *place
	p       *project
	hostKey func(address string) string // returns the name of the file with the host key
	address func(server object) string  // returns the address at which an instance answers; empty if it does not
	running map[string]*exec.Cmd        // by address
}

// sshd plays instances until the test ends. The key in the place's file id permits a login.
func (p *project) sshd(at *place, hostKey func(string) string, address func(object) string) {
	p.t.Helper()
	at.keygen("id")
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		p.t.Fatal(err)
	}
	s := &sshd{at: at, p: p, hostKey: hostKey, address: address, running: map[string]*exec.Cmd{}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		s.play(stop)
	}()
	p.t.Cleanup(func() { close(stop); <-stopped })
}

// keygen creates a key pair, NAME and NAME.pub, unless the public key exists.
func (at *place) keygen(name string) {
	at.t.Helper()
	if _, err := os.Stat(filepath.Join(at.dir, name+".pub")); err == nil {
		return
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", filepath.Join(at.dir, name)).CombinedOutput(); err != nil {
		at.t.Errorf("ssh-keygen: %v\n%s", err, out)
	}
}

// play starts and stops servers as instances appear and disappear.
func (s *sshd) play(stop chan struct{}) {
	defer s.only(nil)
	tick := time.NewTicker(2 * time.Second) // a list of servers costs Nova and Neutron a third of a second
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		there, ok := s.machines()
		if !ok {
			continue
		}
		s.only(there)
		for address := range there {
			if s.running[address] == nil {
				s.start(address)
			}
		}
	}
}

// machines returns the addresses of the instances. ok is false if Nova does not respond.
func (s *sshd) machines() (there map[string]bool, ok bool) {
	_, answer, err := s.p.try(s.p.t.Context(), http.MethodGet, compute, "servers/detail", nil)
	list, ok := answer["servers"].([]any)
	if err != nil || !ok {
		return nil, false
	}
	there = map[string]bool{}
	for _, server := range list {
		if address := s.address(server.(object)); address != "" {
			there[address] = true
		}
	}
	return there, true
}

func (s *sshd) start(address string) {
	cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-h", filepath.Join(s.at.dir, s.hostKey(address)), "-o", "ListenAddress="+address+":22",
		"-o", "AuthorizedKeysFile="+filepath.Join(s.at.dir, "id.pub"), "-o", "StrictModes=no", "-o", "PidFile=none", "-o", "UsePAM=no")
	log, err := os.OpenFile(filepath.Join(s.at.dir, "sshd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.p.t.Error(err)
		return
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.p.t.Errorf("sshd: %v", err)
		return
	}
	s.running[address] = cmd
}

// only stops the servers of all other addresses.
func (s *sshd) only(there map[string]bool) {
	for address, cmd := range s.running {
		if !there[address] {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			delete(s.running, address)
		}
	}
}

// addressesOf returns the addresses of a server that Nova shows.
func addressesOf(server object) (floating, fixed string) {
	for _, network := range server["addresses"].(object) {
		for _, one := range network.([]any) {
			address := one.(object)["addr"].(string)
			if one.(object)["OS-EXT-IPS:type"] == "floating" {
				floating = address
			} else {
				fixed = address
			}
		}
	}
	return floating, fixed
}
