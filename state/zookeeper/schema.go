package zookeeper

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// defaultFile is the file of the private store if the configuration sets none, relative to the configuration's
// directory.
const defaultFile = "npctl.db"

// leastSession is the shortest valid session timeout: ZooKeeper grants at least two of its ticks, and a tick is at
// least half a second.
const leastSession = time.Second

// Schema describes the `state "zookeeper"` block.
func Schema() schema.Block {
	return schema.Block{
		Doc: "Keeps requests, nodes, builds and uploads in ZooKeeper 3.6 or later in the format of Nodepool, shared with Zuul, Nodepool and any number of npctl processes. See state-zookeeper.md.",
		Attributes: []schema.Attribute{
			{Name: "hosts", Type: cty.List(cty.String), Required: true, Check: checkHosts,
				Doc: "Servers of one ensemble as `host` or `host:port`; the default port is 2281 with `tls` and 2181 without."},
			{Name: "chroot", Type: cty.String, Default: cty.StringVal(""), Check: checkChroot,
				Doc: "Znode below which all data is stored, such as `\"/zuul\"`: the same as that of Zuul and Nodepool. It must exist. Empty means the root."},
			{Name: "session_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("10s"), Check: checkSession,
				Doc: "Time after which ZooKeeper considers a silent process dead and releases its locks, at least `\"1s\"`. The server may grant another value."},
			{Name: "file", Type: cty.String, Default: cty.StringVal(defaultFile), Check: checkFile,
				Doc: "File for the private records of this process; each process needs its own. A relative path is relative to the configuration directory. npctl creates the file and its directory if they do not exist, with access for the user only."},
		},
		Blocks: []schema.NestedBlock{{Name: "tls", Max: 1, Schema: tlsBlock()}},
	}
}

func tlsBlock() schema.Block {
	return schema.Block{
		Doc: "PEM files for TLS. A relative path is relative to the configuration directory. Without the block, the connection is not encrypted.",
		Attributes: []schema.Attribute{
			{Name: "cert", Type: cty.String, Check: checkFile, Doc: "Certificate of this client, with `key`. ZooKeeper requires one by default."},
			{Name: "key", Type: cty.String, Check: checkFile, Doc: "Private key of this client, not encrypted."},
			{Name: "ca", Type: cty.String, Check: checkFile, Doc: "Certificates of the trusted authorities. npctl trusts only these; without `ca`, it trusts those of the system."},
			{Name: "verify_host_names", Type: cty.Bool, Default: cty.True,
				Doc: "Whether a server's certificate must name the host as written in `hosts`. Nodepool and Zuul do not check this; npctl always verifies the chain. `false` needs `ca`."},
		},
	}
}

// settings is the decoded block.
type settings struct {
	Hosts          []string      `config:"hosts"`
	Chroot         string        `config:"chroot"`
	SessionTimeout time.Duration `config:"session_timeout"`
	File           string        `config:"file"`
	TLS            *tlsSettings  `config:"tls"`
}

type tlsSettings struct {
	Cert            string `config:"cert"`
	Key             string `config:"key"`
	CA              string `config:"ca"`
	VerifyHostNames *bool  `config:"verify_host_names"`
}

// FromConfig reads the block. Relative paths start at dir. The caller sets the options that the block does not have,
// most notably the private store, which it opens from the returned file.
func FromConfig(config cty.Value, dir string) (opts Options, file string, err error) {
	if config == cty.NilVal || config.IsNull() || !config.IsWhollyKnown() {
		return Options{}, "", errors.New("state \"zookeeper\": its values are not known")
	}
	var s settings
	if err := schema.Decode(config, &s); err != nil {
		return Options{}, "", fmt.Errorf("state \"zookeeper\": %w", err)
	}
	opts = Options{Hosts: s.Hosts, Chroot: s.Chroot, SessionTimeout: s.SessionTimeout}
	if opts.TLS, err = s.TLS.options(dir); err != nil {
		return Options{}, "", fmt.Errorf("state \"zookeeper\": %w", err)
	}
	return opts, beside(dir, s.File), nil
}

func (s *tlsSettings) options(dir string) (*TLS, error) {
	if s == nil {
		return nil, nil
	}
	t := &TLS{Cert: beside(dir, s.Cert), Key: beside(dir, s.Key), CA: beside(dir, s.CA), AnyName: s.VerifyHostNames != nil && !*s.VerifyHostNames}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("tls: set both cert and key, or neither")
	}
	if t.AnyName && t.CA == "" {
		return nil, fmt.Errorf("tls: %w", errAnyNameOfAnyone)
	}
	return t, nil
}

// String returns the location of the state for messages.
func (o *Options) String() string {
	return strings.Join(o.Hosts, ",") + strings.TrimSuffix(o.Chroot, "/")
}

func beside(dir, file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

func checkHosts(hosts cty.Value) error {
	if hosts.LengthInt() == 0 {
		return errors.New("at least one server is needed, such as \"zk1.example.com:2281\"")
	}
	for _, host := range hosts.AsValueSlice() {
		if host.IsNull() {
			return errors.New("a host is null")
		}
		if !host.IsKnown() {
			continue
		}
		if _, err := withPort(host.AsString(), plainPort); err != nil {
			return err
		}
	}
	return nil
}

func checkChroot(chroot cty.Value) error {
	at := strings.TrimSuffix(chroot.AsString(), "/")
	if at == "" || at[0] == '/' && path.Clean(at) == at && printable(at) {
		return nil
	}
	return fmt.Errorf("%q is not a path such as /zuul", chroot.AsString())
}

func checkSession(timeout cty.Value) error {
	if d, err := schema.ParseDuration(timeout.AsString()); err == nil && d < leastSession {
		return fmt.Errorf("%q is less than %s, the minimum that a server grants", timeout.AsString(), leastSession)
	}
	return nil
}

func checkFile(file cty.Value) error {
	if name := file.AsString(); name == "" || strings.ContainsAny(name, "\x00\r\n") {
		return fmt.Errorf("%q is not a file path", name)
	}
	return nil
}
