package zookeeper

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	str2duration "github.com/xhit/go-str2duration/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// DefaultFile is the file of the private store if the configuration sets none, relative to the configuration's
// directory.
const DefaultFile = "npctl.db"

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
			{Name: "file", Type: cty.String, Default: cty.StringVal(DefaultFile), Check: checkFile,
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

// FromConfig reads the block. Relative paths start at dir. The caller sets the options that the block does not have,
// most notably the private store, which it opens from the returned file.
func FromConfig(config cty.Value, dir string) (opts Options, file string, err error) {
	if config == cty.NilVal || config.IsNull() || !config.IsWhollyKnown() {
		return Options{}, "", errors.New("state \"zookeeper\": its values are not known")
	}
	config, _ = config.UnmarkDeep()
	for _, host := range config.GetAttr("hosts").AsValueSlice() {
		opts.Hosts = append(opts.Hosts, plain(host))
	}
	opts.Chroot = plain(config.GetAttr("chroot"))
	if opts.SessionTimeout, err = str2duration.ParseDuration(plain(config.GetAttr("session_timeout"))); err != nil {
		return Options{}, "", fmt.Errorf("state \"zookeeper\": session_timeout: %w", err)
	}
	if opts.TLS, err = tlsFrom(config.GetAttr("tls"), dir); err != nil {
		return Options{}, "", fmt.Errorf("state \"zookeeper\": %w", err)
	}
	return opts, beside(dir, plain(config.GetAttr("file"))), nil
}

func tlsFrom(config cty.Value, dir string) (*TLS, error) {
	if config.IsNull() {
		return nil, nil
	}
	t := &TLS{Cert: beside(dir, plain(config.GetAttr("cert"))), Key: beside(dir, plain(config.GetAttr("key"))),
		CA: beside(dir, plain(config.GetAttr("ca")))}
	if verify := config.GetAttr("verify_host_names"); !verify.IsNull() {
		t.AnyName = verify.False()
	}
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

func plain(v cty.Value) string {
	if v.IsNull() {
		return ""
	}
	return v.AsString()
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
	if d, err := str2duration.ParseDuration(timeout.AsString()); err == nil && d < leastSession {
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
