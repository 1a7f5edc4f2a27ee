package kubernetes

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the plugins that a kubeconfig may name
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
)

// connection is the access to one cluster.
type connection struct {
	client
	context  string // of the kubeconfig, or inCluster
	host     string // URL of the API server
	provider string
	// namespace is the one of the context.
	namespace string
	skipTLS   bool
	ca        string // base64 of the PEM file by which npctl verifies the API server; "" for the CAs of the system
	token     string // the token of the context, if it has one
	close     func()
}

// inCluster is the name of the cluster in which npctl runs.
const inCluster = "in-cluster"

// connect reads the kubeconfig. It sends no request.
func connect(env drivers.Env, settings providerSettings) (connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: settings.Context})
	raw, err := loader.RawConfig()
	if err != nil {
		return connection{}, fmt.Errorf("%w: read kubeconfig: %w", drivers.ErrRejected, err)
	}
	name := raw.CurrentContext
	if settings.Context != "" {
		name = settings.Context
		if raw.Contexts[name] == nil {
			return connection{}, unknownContext(name, slices.Sorted(maps.Keys(raw.Contexts)))
		}
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return connection{}, configError(name, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return connection{}, fmt.Errorf("%w: context %s: %w", drivers.ErrRejected, name, err)
	}
	name = cmp.Or(name, inCluster)
	c, err := dial(env, config)
	c.context, c.namespace, c.provider = name, namespace, env.Provider
	return c, err
}

func unknownContext(name string, names []string) error {
	help := "; the kubeconfig has no contexts: set KUBECONFIG"
	if near := text.Near(name, names); len(near) > 0 {
		help = "; did you mean " + strings.Join(near, ", ") + "?"
	} else if len(names) > 0 {
		help = "; there are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("%w: the kubeconfig has no context %q%s", drivers.ErrRejected, name, help)
}

func configError(name string, err error) error {
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return fmt.Errorf("%w: there is no kubeconfig, and npctl does not run in a cluster; set KUBECONFIG", drivers.ErrRejected)
	}
	return fmt.Errorf("%w: context %s: %w", drivers.ErrRejected, name, err)
}

// dial makes the client for a configuration.
func dial(env drivers.Env, config *rest.Config) (connection, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // npctl has its own rate limit
	config.WarningHandler = rest.NoWarnings{}
	config.UserAgent = "npctl"
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, apischema.GroupVersion{Version: "v1"}) // has Status, the type of errors
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if env.WrapTransport != nil {
		config.Wrap(env.WrapTransport)
	}
	config.Wrap(drivers.BoundBodies)
	if err := rest.LoadTLSFiles(config); err != nil {
		return connection{}, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	sender, err := httpClient(config)
	if err != nil {
		return connection{}, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	client1, err := rest.UnversionedRESTClientForConfigAndClient(config, sender)
	if err != nil {
		return connection{}, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return connection{}, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	token, err := tokenOf(config)
	return connection{
		client: client{client1}, host: strings.TrimSuffix(host.String(), "/"), skipTLS: config.Insecure,
		ca: base64.StdEncoding.EncodeToString(config.CAData), token: token, close: sender.CloseIdleConnections,
	}, err
}

// httpClient returns the client of a configuration. A credential of client-go, such as that of an exec plugin, renews itself
// after a 401, for the next request.
func httpClient(config *rest.Config) (*http.Client, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	authorized := client.Transport
	client.Transport, err = drivers.Reauthorize(func() (http.RoundTripper, error) { return authorized, nil })
	return client, err
}

func tokenOf(config *rest.Config) (string, error) {
	if config.BearerTokenFile == "" {
		return config.BearerToken, nil
	}
	content, err := os.ReadFile(config.BearerTokenFile)
	if err != nil {
		return "", fmt.Errorf("%w: read token: %w", drivers.ErrRejected, err)
	}
	return strings.TrimSpace(string(content)), nil
}

// Close implements drivers.Cloud.
func (c *connection) Close() error {
	c.close()
	return nil
}
