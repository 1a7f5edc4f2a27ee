//go:build integration

package zookeeper_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/zookeeper"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// tryOpen opens and closes a store.
func tryOpen(ctx context.Context, t *testing.T, tr *tree, change func(*zookeeper.Options)) error {
	t.Helper()
	private, err := bolt.Open(bolt.Options{Role: bolt.RolePrivate, Path: filepath.Join(t.TempDir(), "private.db")})
	testutil.Must(t, err)
	defer func() { testutil.Must(t, private.Close()) }()
	secure := tr.tls()
	opts := zookeeper.Options{Hosts: tr.servers(), Chroot: tr.chroot, TLS: &secure, Private: private, OpenTimeout: 2 * time.Minute}
	change(&opts)
	s, err := zookeeper.Open(ctx, opts)
	if err == nil {
		testutil.Must(t, s.Close())
	}
	return err
}

func TestOpenErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	elsewhere := lab.StartProxyAt(t, "127.0.0.2:0", tr.servers()[0]).Address() // the certificate does not name it
	dead := deadAddress(t)
	authority := filepath.Join(filepath.Dir(tr.CA), "other", "ca.pem")
	noCert := filepath.Join(t.TempDir(), "empty.pem")
	testutil.Must(t, os.WriteFile(noCert, nil, 0o600))
	for name, c := range map[string]struct {
		change func(*zookeeper.Options)
		want   []string // parts of the error
	}{
		"a client that the servers do not know": {func(o *zookeeper.Options) { o.TLS.Cert, o.TLS.Key = tr.StrangerCert, tr.StrangerKey },
			[]string{tr.servers()[0], "rejects the client certificate"}},
		"no client certificate":            {func(o *zookeeper.Options) { o.TLS.Cert, o.TLS.Key = "", "" }, []string{tr.servers()[0], "client certificate"}},
		"an authority that has not signed": {func(o *zookeeper.Options) { o.TLS.CA = authority }, []string{tr.servers()[0], "unknown authority", "authority that signed the server's certificate"}},
		"no authority":                     {func(o *zookeeper.Options) { o.TLS.CA = "" }, []string{"authority that signed"}},
		"a server of another name":         {func(o *zookeeper.Options) { o.Hosts = []string{elsewhere} }, []string{elsewhere, "127.0.0.2", "verify_host_names"}},
		"a file that is not there":         {func(o *zookeeper.Options) { o.TLS.CA = "/nowhere/ca.pem" }, []string{"/nowhere/ca.pem", "no such file"}},
		"a file without a certificate":     {func(o *zookeeper.Options) { o.TLS.CA = noCert }, []string{noCert, "no certificate"}},
		"a key of another certificate":     {func(o *zookeeper.Options) { o.TLS.Key = tr.StrangerKey }, []string{tr.Cert, tr.StrangerKey, "does not match"}},
		"the port for plain text":          {func(o *zookeeper.Options) { o.Hosts = []string{tr.Plain}; o.OpenTimeout = 5 * time.Second }, []string{tr.Plain, "closed the connection", "for TLS"}},
		"plain text to the port with TLS":  {func(o *zookeeper.Options) { o.TLS = nil; o.OpenTimeout = 5 * time.Second }, []string{tr.servers()[0], "closed the connection", "for plain text"}},
		"no server":                        {func(o *zookeeper.Options) { o.Hosts = []string{dead}; o.OpenTimeout = 3 * time.Second }, []string{dead, "refused", "that the server runs"}},
		"no such host":                     {func(o *zookeeper.Options) { o.Hosts = []string{"zk1.invalid"}; o.OpenTimeout = 3 * time.Second }, []string{"zk1.invalid", "that the server runs and the address is right"}},
		"a chroot that is not there":       {func(o *zookeeper.Options) { o.Chroot = tr.chroot + "/zuul" }, []string{tr.chroot + "/zuul", "does not exist", "create it"}},
		"a chroot that is no path":         {func(o *zookeeper.Options) { o.Chroot = "zuul" }, []string{`"zuul"`, "must be a path"}},
		"a chroot behind a host":           {func(o *zookeeper.Options) { o.Hosts = []string{"zk1:2281/zuul"} }, []string{"zk1:2281/zuul", "apart from the hosts"}},
		"no hosts":                         {func(o *zookeeper.Options) { o.Hosts = nil }, []string{"at least one"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
			defer cancel()
			err := tryOpen(ctx, t, tr, func(o *zookeeper.Options) {
				o.OpenTimeout = time.Hour
				c.change(o)
			})
			if err == nil {
				t.Fatal("it was opened")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
			if ctx.Err() != nil { // OpenTimeout is longer, but permanent errors are not retried
				t.Errorf("it was still opening after %s", testutil.Patience)
			}
			t.Log(err)
		})
	}
}

// deadAddress returns an address without a listener.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.3:0")
	testutil.Must(t, err)
	defer func() { testutil.Must(t, l.Close()) }()
	return l.Addr().String()
}

func TestHostNameVerificationCanBeDisabled(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	elsewhere := lab.StartProxyAt(t, "127.0.0.2:0", tr.servers()[0]).Address()
	testutil.Must(t, tryOpen(t.Context(), t, tr, func(o *zookeeper.Options) { o.Hosts, o.TLS.AnyName = []string{elsewhere}, true }))
	// the authority is verified in any case
	err := tryOpen(t.Context(), t, tr, func(o *zookeeper.Options) { o.Hosts, o.TLS.AnyName, o.TLS.CA = []string{elsewhere}, true, "" })
	if err == nil || !strings.Contains(err.Error(), "authority") {
		t.Errorf("%v, want that the authority is unknown", err)
	}
}

func TestPlainTextConnection(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	testutil.Must(t, tryOpen(t.Context(), t, tr, func(o *zookeeper.Options) { o.Hosts, o.TLS = []string{tr.Plain}, nil }))
}

func TestDeadServerIsSkipped(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	for range 3 { // whichever server is tried first
		testutil.Must(t, tryOpen(t.Context(), t, tr, func(o *zookeeper.Options) { o.Hosts = []string{deadAddress(t), tr.servers()[0]} }))
	}
}
