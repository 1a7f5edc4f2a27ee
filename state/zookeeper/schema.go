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

// leastSession is the shortest valid session timeout: ZooKeeper grants at least two of its ticks, and a tick is at
// least half a second.
const leastSession = time.Second

// Schema describes the `state "zookeeper"` block.
func Schema() schema.Block {
	return schema.Of[settings]("Keeps requests, nodes, builds and uploads in ZooKeeper 3.6 or later in the format of Nodepool, shared with Zuul, Nodepool and any number of npctl processes. See state-zookeeper.md.",
		map[string]schema.Check{
			"hosts": checkHosts, "chroot": checkChroot, "session_timeout": checkSession, "file": checkFile,
			"tls.cert": checkFile, "tls.key": checkFile, "tls.ca": checkFile,
		})
}

// settings is the decoded block. The default of File is relative to the configuration's directory.
type settings struct {
	Hosts          []string      `config:"hosts,required" doc:"Servers of one ensemble as 'host' or 'host:port'; the default port is 2281 with 'tls' and 2181 without."`
	Chroot         string        `config:"chroot" default:"" doc:"Znode below which all data is stored, such as '\"/zuul\"': the same as that of Zuul and Nodepool. It must exist. Empty means the root."`
	SessionTimeout time.Duration `config:"session_timeout" default:"10s" doc:"Time after which ZooKeeper considers a silent process dead and releases its locks, at least '\"1s\"'. The server may grant another value."`
	File           string        `config:"file" default:"npctl.db" doc:"File for the private records of this process; each process needs its own. A relative path is relative to the configuration directory. npctl creates the file and its directory if they do not exist, with access for the user only."`
	TLS            *tlsSettings  `config:"tls" doc:"PEM files for TLS. A relative path is relative to the configuration directory. Without the block, the connection is not encrypted."`
}

type tlsSettings struct {
	Cert            string `config:"cert" doc:"Certificate of this client, with 'key'. ZooKeeper requires one by default."`
	Key             string `config:"key" doc:"Private key of this client, not encrypted."`
	CA              string `config:"ca" doc:"Certificates of the trusted authorities. npctl trusts only these; without 'ca', it trusts those of the system."`
	VerifyHostNames bool   `config:"verify_host_names" default:"true" doc:"Whether a server's certificate must name the host as written in 'hosts'. Nodepool and Zuul do not check this; npctl always verifies the chain. 'false' needs 'ca'."`
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
	t := &TLS{Cert: beside(dir, s.Cert), Key: beside(dir, s.Key), CA: beside(dir, s.CA), AnyName: !s.VerifyHostNames}
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
