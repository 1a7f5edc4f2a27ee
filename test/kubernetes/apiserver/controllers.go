package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
)

// resync is the time between complete syncs of a controller, as in the controller manager; workers is the number of
// objects that each controller works on at the same time.
const (
	resync  = 5 * time.Minute
	workers = 20
)

// controllers are the controllers of Kubernetes' controller manager by which a namespace gets its default objects, a
// secret its token, the role admin its rules and a quota its status, and by which a namespace is deleted.
type controllers struct {
	client   kubernetes.Interface
	metadata metadata.Interface
	shared   informers.SharedInformerFactory
	key, ca  string // files
}

func newControllersCommand() *cobra.Command {
	var config string
	var c controllers
	cmd := &cobra.Command{Use: "controllers", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		access, err := clientcmd.BuildConfigFromFlags("", config)
		if err != nil {
			return err
		}
		return c.run(cmd.Context(), access)
	}}
	cmd.Flags().StringVar(&config, "kubeconfig", "", "credentials of an administrator")
	cmd.Flags().StringVar(&c.key, "service-account-private-key-file", "", "key that signs the tokens of service accounts")
	cmd.Flags().StringVar(&c.ca, "root-ca-file", "", "certificate of the API server")
	return cmd
}

// run runs the controllers until ctx is done.
func (c *controllers) run(ctx context.Context, config *rest.Config) (err error) {
	config.QPS = -1
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return err
	}
	c.shared = informers.NewSharedInformerFactory(c.client, resync)
	started := make(chan struct{})
	var starts []func(context.Context, int)
	for _, each := range []func(context.Context, <-chan struct{}) (func(context.Context, int), error){
		c.namespaces, c.serviceAccounts, c.tokens, c.rootCA, c.roles, c.quotas,
	} {
		start, err := each(ctx, started)
		if err != nil {
			return err
		}
		starts = append(starts, start)
	}
	for _, start := range starts {
		go start(ctx, workers)
	}
	c.shared.Start(ctx.Done())
	close(started)
	<-ctx.Done()
	return nil
}

func (c *controllers) namespaces(ctx context.Context, _ <-chan struct{}) (func(context.Context, int), error) {
	return namespace.NewNamespaceController(ctx, c.client, c.metadata, c.client.Discovery().ServerPreferredNamespacedResources,
		c.shared.Core().V1().Namespaces(), resync, v1.FinalizerKubernetes).Run, nil
}

func (c *controllers) serviceAccounts(ctx context.Context, _ <-chan struct{}) (func(context.Context, int), error) {
	s, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), c.shared.Core().V1().ServiceAccounts(), c.shared.Core().V1().Namespaces(),
		c.client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return s.Run, nil
}

func (c *controllers) tokens(ctx context.Context, _ <-chan struct{}) (func(context.Context, int), error) {
	key, err := keyutil.PrivateKeyFromFile(c.key)
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, err
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	t, err := serviceaccount.NewTokensController(klog.FromContext(ctx), c.shared.Core().V1().ServiceAccounts(), c.shared.Core().V1().Secrets(), c.client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: ca})
	if err != nil {
		return nil, err
	}
	return t.Run, nil
}

func (c *controllers) rootCA(context.Context, <-chan struct{}) (func(context.Context, int), error) {
	ca, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, err
	}
	p, err := rootcacertpublisher.NewPublisher(c.shared.Core().V1().ConfigMaps(), c.shared.Core().V1().Namespaces(), c.client, ca)
	if err != nil {
		return nil, err
	}
	return p.Run, nil
}

func (c *controllers) roles(context.Context, <-chan struct{}) (func(context.Context, int), error) {
	return clusterroleaggregation.NewClusterRoleAggregation(c.shared.Rbac().V1().ClusterRoles(), c.client.RbacV1()).Run, nil
}

func (c *controllers) quotas(ctx context.Context, started <-chan struct{}) (func(context.Context, int), error) {
	evaluators, err := quotainstall.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(c.shared.ForResource), c.shared)
	if err != nil {
		return nil, err
	}
	discover := c.client.Discovery().ServerPreferredNamespacedResources
	q, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient: c.client.CoreV1(), ResourceQuotaInformer: c.shared.Core().V1().ResourceQuotas(), ResyncPeriod: controller.StaticResyncPeriodFunc(resync),
		InformerFactory:           informerfactory.NewInformerFactory(c.shared, metadatainformer.NewSharedInformerFactory(c.metadata, resync)),
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(resync), DiscoveryFunc: discover, IgnoredResourcesFunc: evaluators.IgnoredResources,
		InformersStarted: started, Registry: generic.NewRegistry(evaluators.Evaluators()), UpdateFilter: quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, workers int) {
		go q.Sync(ctx, discover, 30*time.Second)
		q.Run(ctx, workers)
	}, nil
}
