//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

// daemon is an npctl watch that runs in a place.
type daemon struct {
	at *place
	*program.Process
}

// watch starts a daemon and waits until it is ready. The daemon ends with the test.
func (at *place) watch(options ...string) *daemon {
	at.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(at.t.Context()), npctl, append([]string{"watch"}, options...)...)
	cmd.Dir, cmd.Env = at.dir, at.env
	d := &daemon{at, program.Start(at.t, cmd, at.logFile())}
	began := time.Now()
	eventually(at.t, "npctl watch is ready", func() bool {
		d.Runs()
		_, err := d.get("/readyz")
		return err == nil
	})
	at.t.Logf("npctl watch is ready after %.1f s", time.Since(began).Seconds())
	return d
}

func (at *place) logFile() string { return filepath.Join(at.dir, "watch.log") }

// printLogIfFailed prints the log of the place's daemons if the test has failed.
func (at *place) printLogIfFailed() {
	at.t.Cleanup(func() {
		if at.t.Failed() {
			text, _ := os.ReadFile(at.logFile())
			at.t.Logf("log of npctl watch:\n%s", text)
		}
	})
}

// get requests a path from the daemon's socket that no command covers.
func (d *daemon) get(path string) (string, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(d.at.dir, "npctl.db.sock"))
		}}}
	answer, err := client.Get("http://npctl" + path) //nolint:noctx // it has a time limit
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}

// metric returns the value of a metric, or 0 if it does not exist. name includes the labels.
func (d *daemon) metric(name string) float64 {
	d.at.t.Helper()
	text, err := d.get("/metrics")
	testutil.Must(d.at.t, err)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	value, err := strconv.ParseFloat(found[1], 64)
	testutil.Must(d.at.t, err)
	return value
}

// node and reply contain the fields of the JSON output of npctl request and npctl node that tests read.
type node struct {
	ID         string   `json:"id"`
	State      string   `json:"state"`
	Labels     []string `json:"labels"`
	ExternalID string   `json:"external_id"`
	Attempt    int      `json:"attempt"`
	HostKeys   []string `json:"host_keys"`
	Request    string   `json:"request"`
	Addresses  struct {
		Interface string `json:"interface"`
	} `json:"addresses"`
	Login struct {
		Username string `json:"username"`
	} `json:"login"`
}

type reply struct {
	Requests []struct {
		ID       string            `json:"id"`
		State    string            `json:"state"`
		Error    string            `json:"error"`
		Declined []json.RawMessage `json:"declined"`
	} `json:"requests"`
	Nodes []node `json:"nodes"`
}

// says runs an npctl command that prints JSON. Unlike run it may be called from any goroutine.
func (at *place) says(args ...string) (a reply, err error) {
	ctx, cancel := context.WithTimeout(at.t.Context(), 5*time.Minute) // Nova is slow on a busy machine
	defer cancel()
	cmd, stdout, stderr := at.command(ctx, append(args, "-json")...)
	if err := cmd.Run(); err != nil {
		return a, fmt.Errorf("npctl %s: %w\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	if err := json.NewDecoder(bytes.NewReader(stdout.Bytes())).Decode(&a); err != nil {
		return a, fmt.Errorf("npctl %s: %w in\n%s", strings.Join(args, " "), err, stdout)
	}
	return a, nil
}

// asks returns the arguments of npctl request create for nodes of the labels.
func asks(labels []string, options ...string) []string {
	args := append([]string{"request", "create"}, options...)
	for _, label := range labels {
		args = append(args, "-label="+label)
	}
	return args
}

// takeNodes requests nodes, waits for them and takes them.
func (at *place) takeNodes(labels ...string) []node {
	at.t.Helper()
	a, err := at.runTake(asks(labels, "-take"), labels)
	testutil.Must(at.t, err)
	return a
}

// runTake runs an npctl command that takes nodes. It returns an error unless there is one node for each label.
func (at *place) runTake(args, labels []string) ([]node, error) {
	began := time.Now()
	a, err := at.says(args...)
	if err != nil {
		return nil, err
	}
	var got []string
	for _, n := range a.Nodes {
		got = append(got, n.Labels...)
	}
	if !slices.Equal(got, labels) {
		return nil, fmt.Errorf("nodes of %q for a request of %q", got, labels)
	}
	at.t.Logf("nodes for %q after %.1f s", labels, time.Since(began).Seconds())
	return a.Nodes, nil
}

// requests creates a request without waiting for it, and returns its ID.
func (at *place) requests(labels ...string) string {
	at.t.Helper()
	a, err := at.says(asks(labels)...)
	if err != nil || len(a.Requests) != 1 {
		at.t.Fatalf("%+v, %v", a, err)
	}
	return a.Requests[0].ID
}

// stateOf returns the state of a request.
func (at *place) stateOf(request string) string {
	at.t.Helper()
	a, err := at.says("request", "show", request)
	if err != nil || len(a.Requests) != 1 {
		at.t.Fatalf("%+v, %v", a, err)
	}
	if len(a.Requests[0].Declined) > 0 {
		at.t.Errorf("request %s was declined: %s", request, a.Requests[0].Declined)
	}
	return a.Requests[0].State
}

// returnNodes returns nodes to npctl.
func (at *place) returnNodes(nodes ...node) {
	at.t.Helper()
	args := []string{"node", "return"}
	for _, n := range nodes {
		args = append(args, n.ID)
	}
	if _, err := at.says(args...); err != nil {
		at.t.Error(err)
	}
}

// census returns the number of nodes by state.
func (at *place) census() string {
	at.t.Helper()
	a, err := at.says("node", "list")
	testutil.Must(at.t, err)
	counts := map[string]int{}
	for _, n := range a.Nodes {
		counts[n.State]++
	}
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(counts), "map["), "]")
}

// eventuallyCensus waits until the census is as wanted.
func (at *place) eventuallyCensus(want string) {
	at.t.Helper()
	began, got := time.Now(), ""
	eventually(at.t, "nodes are "+want, func() bool {
		if now := at.census(); now != got {
			got = now
			at.t.Logf("nodes are %q after %.1f s", got, time.Since(began).Seconds())
		}
		return got == want
	})
}

// ssh runs a command on a node. The node must present one of its recorded host keys.
func (at *place) ssh(n node, command ...string) (string, error) {
	known := ""
	for _, key := range n.HostKeys {
		known += n.Addresses.Interface + " " + key + "\n"
	}
	file := filepath.Join(at.dir, "known-"+n.ID)
	if err := os.WriteFile(file, []byte(known), 0o600); err != nil {
		return "", err
	}
	args := []string{"-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=" + file, "-o", "ConnectTimeout=10",
		"-i", filepath.Join(at.dir, "id"), n.Login.Username + "@" + n.Addresses.Interface}
	out, err := exec.CommandContext(at.t.Context(), "ssh", append(args, command...)...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("ssh %s: %w: %s", n.Addresses.Interface, err, out)
	}
	return string(out), err
}
