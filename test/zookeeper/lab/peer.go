package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// Peer is a Zuul: Zuul's own ZooKeeper classes in a separate process with one session (test/zookeeper/peer). Its
// methods may be called concurrently; commands run concurrently.
type Peer struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed after the process has ended and its answers are read

	writing sync.Mutex
	stdin   io.WriteCloser // guarded by writing

	mu      sync.Mutex
	number  int                 // guarded by mu
	waiting map[int]chan answer // guarded by mu
	gone    bool                // guarded by mu: no more answers arrive
}

// PeerOptions configures a peer that differs from the default.
type PeerOptions struct {
	Hosts   string        // servers to connect to, for example through a Proxy; the lab's servers when empty
	Timeout time.Duration // of the session; 10 s when 0, which is less than Zuul's 120 s
	System  string        // the requestor of its requests; the ID that Zuul keeps in /zuul-system when empty
}

// PeerError is an exception that Zuul raised.
type PeerError struct {
	Kind    string // class of the exception
	Message string
}

func (e *PeerError) Error() string { return e.Kind + ": " + e.Message }

type answer struct {
	ID    int             `json:"id"`
	OK    json.RawMessage `json:"ok"`
	Error string          `json:"error"`
	Kind  string          `json:"kind"`
}

// errPeerEnded is the error of every command after the peer has ended.
var errPeerEnded = errors.New("the peer has ended")

// StartPeer starts a Zuul, waits until it is connected, and stops it at the end of the test.
func StartPeer(t testing.TB, e Env, o PeerOptions) *Peer {
	t.Helper()
	cmd, err := peerCommand(e, o)
	testutil.Must(t, err)
	log, err := os.Create(filepath.Join(t.TempDir(), "zuul.log"))
	testutil.Must(t, err)
	p := &Peer{cmd: cmd, ended: make(chan struct{}), waiting: map[int]chan answer{}}
	testutil.Must(t, p.start(log))
	t.Cleanup(func() {
		p.Kill()
		_ = log.Close()
		if t.Failed() {
			logFiles(t, log.Name())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := p.Hello(ctx); err != nil {
		t.Fatalf("start Zuul's classes: %v", err)
	}
	return p
}

func peerCommand(e Env, o PeerOptions) (*exec.Cmd, error) {
	venv := os.Getenv("NPCTL_TEST_ZUUL_VENV")
	if venv == "" {
		out, err := script("install.sh", "--zuul")
		if err != nil {
			return nil, err
		}
		venv = strings.TrimSpace(out)
	}
	dir, err := scripts()
	if err != nil {
		return nil, err
	}
	if o.Hosts == "" {
		o.Hosts = e.Hosts
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	// -B: no compiled files in the source tree
	arguments := []string{"-B", filepath.Join(dir, "peer", "client.py"), "--hosts", o.Hosts, "--cert", e.Cert, "--key", e.Key,
		"--ca", e.CA, "--timeout", fmt.Sprint(o.Timeout.Seconds())}
	if o.System != "" {
		arguments = append(arguments, "--system", o.System)
	}
	return exec.CommandContext(context.Background(), filepath.Join(venv, "bin", "python"), arguments...), nil
}

func (p *Peer) start(log *os.File) error {
	p.cmd.Stderr = log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go p.read(stdout)
	return nil
}

// read delivers answers to waiting callers until the process has ended.
func (p *Peer) read(stdout io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 64<<20) // the answer of Run has an entry for every request
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err == nil {
			p.take(a.ID) <- a
		}
	}
	_ = p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for _, c := range p.waiting {
		close(c)
	}
}

// take removes and returns the channel for an answer, which has capacity for it.
func (p *Peer) take(id int) chan answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.waiting[id]
	if !ok { // the caller has given up
		return make(chan answer, 1)
	}
	delete(p.waiting, id)
	return c
}

// Do sends a command of test/zookeeper/peer/client.py and waits for its answer, for five minutes unless ctx is shorter.
func (p *Peer) Do(ctx context.Context, command string, members map[string]any, result any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	id, c, err := p.expect()
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	line := map[string]any{"id": id, "do": command}
	for k, v := range members {
		line[k] = v
	}
	if err := p.send(line); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	select {
	case <-ctx.Done():
		p.take(id)
		return fmt.Errorf("%s: %w", command, ctx.Err())
	case a, ok := <-c:
		return a.decode(command, ok, result)
	}
}

func (a answer) decode(command string, ok bool, result any) error {
	switch {
	case !ok:
		return fmt.Errorf("%s: %w", command, errPeerEnded)
	case a.Error != "":
		return fmt.Errorf("%s: %w", command, &PeerError{Kind: a.Kind, Message: a.Error})
	case result == nil:
		return nil
	}
	return json.Unmarshal(a.OK, result)
}

func (p *Peer) expect() (int, chan answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return 0, nil, errPeerEnded
	}
	p.number++
	c := make(chan answer, 1)
	p.waiting[p.number] = c
	return p.number, c, nil
}

func (p *Peer) send(line map[string]any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.stdin.Write(append(text, '\n'))
	return err
}

// Close stops the peer in an orderly way: it closes the session.
func (p *Peer) Close() error {
	p.writing.Lock()
	err := p.stdin.Close()
	p.writing.Unlock()
	select {
	case <-p.ended:
		return err
	case <-time.After(20 * time.Second):
		p.Kill()
		return errors.New("the peer did not end within 20 s")
	}
}

// Kill ends the peer by SIGKILL: its session stays until it times out.
func (p *Peer) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}
