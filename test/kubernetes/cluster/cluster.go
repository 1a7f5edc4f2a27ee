// Package cluster runs a Kubernetes for tests: etcd, the API server and some controllers of the controller manager. There is
// no kubelet; the package sets the status of pods in its place. Projects of OpenShift are a translation in front of the API server.
package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Token is the token of an administrator, LimitedToken that of a user without permissions, DocumentedToken that of a user that gets its
// permissions from the tests.
const (
	Token           = "administrator-token-of-the-tests"
	LimitedToken    = "limited-token-of-the-tests"
	DocumentedToken = "documented-token-of-the-tests"
)

// startLimit is the time within which the components must start.
const startLimit = 5 * time.Minute

// Cluster is a running cluster.
type Cluster struct {
	URL        string // of the API server
	CA         string // file with its certificate
	Kubeconfig string // file of the administrator

	dir       string
	client    *http.Client
	processes []*exec.Cmd
	stop      context.CancelFunc
	done      chan struct{} // closed when no pod is started any more
}

// Start starts a cluster with the program of test/kubernetes/apiserver, which $NPCTL_KUBE names.
func Start() (*Cluster, error) {
	program := os.Getenv("NPCTL_KUBE")
	if program == "" {
		return nil, errors.New("NPCTL_KUBE is not set; run test/kubernetes/run.sh")
	}
	dir, err := os.MkdirTemp("", "npctl-cluster")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Cluster{dir: dir, stop: stop, done: make(chan struct{}), CA: filepath.Join(dir, "certs", "apiserver.crt")}
	go c.startPods(ctx)
	if err := c.start(program); err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, log := range logs {
			content, _ := os.ReadFile(log)
			err = fmt.Errorf("%w\n%s:\n%s", err, filepath.Base(log), content[max(0, len(content)-3000):])
		}
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(program string) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd, peer := "http://"+ports[0], "http://"+ports[1]
	if err := c.run("etcd", "etcd", "--data-dir", c.path("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--unsafe-no-fsync"); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	c.URL = "https://" + ports[2]
	_, port, _ := net.SplitHostPort(ports[2])
	if err := c.run("apiserver", program, "apiserver", "--etcd-servers="+etcd, "--secure-port="+port, "--bind-address=127.0.0.1",
		"--cert-dir="+c.path("certs"), "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.path("sa.key"),
		"--service-account-signing-key-file="+c.path("sa.key"), "--token-auth-file="+c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24", "--profiling=false", "--allow-privileged=true"); err != nil {
		return err
	}
	if err := await(func() error { return c.Request(http.MethodGet, "/readyz", nil, nil) }); err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	c.Kubeconfig = c.path("kubeconfig")
	if err := os.WriteFile(c.Kubeconfig, []byte(Kubeconfig{Server: c.URL, CA: c.CA, Token: Token}.text()), 0o600); err != nil {
		return err
	}
	if err := c.run("controllers", program, "controllers", "--kubeconfig="+c.Kubeconfig, "--service-account-private-key-file="+c.path("sa.key"),
		"--root-ca-file="+c.CA); err != nil {
		return err
	}
	if err := await(func() error {
		return c.Request(http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", nil, nil)
	}); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	return await(func() error { // the controllers fill the rules of this role
		var role struct{ Rules []any }
		err := c.Request(http.MethodGet, "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin", nil, &role)
		if err == nil && len(role.Rules) == 0 {
			err = errors.New("the role admin has no rules yet")
		}
		return err
	})
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

// writeFiles writes the key of service accounts and the tokens of users.
func (c *Cluster) writeFiles() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	tokens := fmt.Sprintf("%s,admin,admin,\"system:masters\"\n%s,limited,limited\n%s,documented,documented\n", Token, LimitedToken, DocumentedToken)
	return errors.Join(os.WriteFile(c.path("sa.key"), private, 0o600), os.WriteFile(c.path("tokens.csv"), []byte(tokens), 0o600))
}

// run starts a process that writes to a log file.
func (c *Cluster) run(name, program string, args ...string) error {
	log, err := os.Create(c.path(name + ".log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	cmd := exec.CommandContext(context.Background(), program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, c.dir
	if err := cmd.Start(); err != nil {
		return err
	}
	c.processes = append(c.processes, cmd)
	return nil
}

// Stop kills the processes and removes their files.
func (c *Cluster) Stop() {
	c.stop()
	<-c.done
	for i := len(c.processes) - 1; i >= 0; i-- {
		_ = c.processes[i].Process.Kill()
		_ = c.processes[i].Wait()
	}
	_ = os.RemoveAll(c.dir)
}

func await(check func() error) error {
	for deadline := time.Now().Add(startLimit); ; time.Sleep(100 * time.Millisecond) {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func freePorts(n int) (addresses []string, err error) {
	for range n {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:errcheck // only reserves the port
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// Transport returns the transport to the API server.
func (c *Cluster) Transport() (http.RoundTripper, error) {
	return rest.TransportFor(&rest.Config{Host: c.URL, TLSClientConfig: rest.TLSClientConfig{CAFile: c.CA}})
}

// Request sends a request of the administrator.
func (c *Cluster) Request(method, path string, body, into any) error {
	if c.client == nil {
		transport, err := c.Transport()
		if err != nil {
			return err
		}
		c.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	}
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(context.Background(), method, c.URL+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+Token)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // read to its end
	content, err = io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 400 {
		return fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, content)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(content, into)
}

// Object is the part of an object that tests read.
type Object struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Deletion    string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec   map[string]any `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// List returns the objects at a path.
func (c *Cluster) List(path string) ([]Object, error) {
	var list struct{ Items []Object }
	err := c.Request(http.MethodGet, path, nil, &list)
	return list.Items, err
}

// startPods sets the status of pending pods, as a kubelet would. Pods with the image "broken" cannot be pulled.
func (c *Cluster) startPods(ctx context.Context) {
	defer close(c.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
		if c.client == nil {
			continue
		}
		pods, _ := c.List("/api/v1/pods?fieldSelector=status.phase%3DPending")
		for _, pod := range pods {
			_ = c.Request(http.MethodPatch, "/api/v1/namespaces/"+pod.Metadata.Namespace+"/pods/"+pod.Metadata.Name+"/status", podStatus(pod), nil)
		}
	}
}

func podStatus(pod Object) any {
	containers, _ := pod.Spec["containers"].([]any)
	phase := "Running"
	var statuses []any
	for _, container := range containers {
		spec, _ := container.(map[string]any)
		state := map[string]any{"running": map[string]any{"startedAt": time.Now().UTC().Format(time.RFC3339)}}
		if image, _ := spec["image"].(string); strings.HasPrefix(image, "broken") {
			phase, state = "Pending", map[string]any{"waiting": map[string]any{"reason": "ImagePullBackOff", "message": "Back-off pulling image " + image}}
		}
		statuses = append(statuses, map[string]any{"name": spec["name"], "image": spec["image"], "imageID": "", "restartCount": 0, "ready": phase == "Running", "state": state})
	}
	return map[string]any{"status": map[string]any{"phase": phase, "podIP": "192.0.2.1", "containerStatuses": statuses}}
}

// Kubeconfig is a file with the context test, and the context wrong with a wrong token.
type Kubeconfig struct {
	Server, CA, Token, Namespace string
}

func (k Kubeconfig) text() string {
	ca := ""
	if k.CA != "" {
		ca = "\n    certificate-authority: " + k.CA
	}
	if k.Namespace == "" {
		k.Namespace = "default"
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: %s%s
users:
- name: test
  user:
    token: %s
- name: wrong
  user:
    token: a-wrong-token
contexts:
- name: test
  context: {cluster: test, user: test, namespace: %s}
- name: wrong
  context: {cluster: test, user: wrong, namespace: %s}
current-context: test
`, k.Server, ca, k.Token, k.Namespace, k.Namespace)
}

// Write writes the file and returns its path.
func (k Kubeconfig) Write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(k.text()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
