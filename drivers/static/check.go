package static

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/resources"
)

// Check implements drivers.Checker. Nodes that use SSH must have all host keys of the configuration; other nodes must
// accept a connection. Without host_key_checking, Check returns the configured keys and does not connect.
func (*Cloud) Check(ctx context.Context, node resources.StaticNode) ([]string, error) {
	if !settingsOf(node.Config).HostKeyChecking {
		return node.HostKeys, ctx.Err()
	}
	address, limit := addressOf(node), settingsOf(node.Config).Timeout
	if !node.Login.OverSSH() {
		return nil, dial(ctx, node.Name, address, limit)
	}
	shown, err := keyscan.Scan(ctx, address, limit)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	for _, line := range node.HostKeys {
		key, err := keyscan.Normal(line)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w: %w", node.Name, drivers.ErrRejected, err)
		}
		if !slices.Contains(shown, key) {
			return nil, fmt.Errorf("node %s: %w: %s does not show the host key %s; it shows %s. The connection may be intercepted; if the machine was reinstalled, write its new key into host_keys",
				node.Name, drivers.ErrRejected, address, key, strings.Join(shown, ", "))
		}
	}
	return shown, nil
}

func dial(ctx context.Context, name, address string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	return conn.Close()
}

// addressOf returns the address to dial. The default ports are those of SSH and WinRM over HTTPS.
func addressOf(node resources.StaticNode) string {
	host := cmp.Or(node.Address, node.Name)
	port := node.Login.ConnectionPort
	switch {
	case port != 0:
	case node.Login.ConnectionType == "winrm":
		port = 5986
	default:
		port = 22
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.FormatInt(port, 10))
}
