package kubernetes

import (
	"context"
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// credentials are the connection_port of nodes in Nodepool, from which Zuul's executor writes a kubeconfig.
type credentials struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace"`
	Host      string `json:"host"`
	SkipTLS   bool   `json:"skiptls"`
	Token     string `json:"token"`
	User      string `json:"user"`
	CA        string `json:"ca_crt,omitempty"` // base64 of the PEM file
	Pod       string `json:"pod,omitempty"`
}

// secretObject is the secret of a token.
type secretObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Data     map[string]string `json:"data"` // base64
}

func (c *Cloud) secret(ctx context.Context, namespace string) (s secretObject, err error) {
	err = c.get(ctx, inNamespace(coreAPI, namespace, "secrets")+"/"+worker, &s)
	return s, err
}

// Access implements drivers.Accessor.
func (c *Cloud) Access(ctx context.Context, id string) (string, error) {
	s, err := c.secret(ctx, id)
	if err != nil {
		return "", err
	}
	r := recordIn(s.Metadata)
	token, err := base64.StdEncoding.DecodeString(s.Data[corev1.ServiceAccountTokenKey])
	if err != nil || len(token) == 0 || r.Installation == "" {
		return "", fmt.Errorf("secret %s of namespace %s has no token", worker, id)
	}
	access := c.credentials(id, string(token))
	access.Name = id
	if r.Type == typePod {
		access.Pod = id
	}
	return string(bodyOf(access)), nil
}

// credentials returns those for a namespace, without a pod. The CA is the one by which npctl itself verifies the API
// server, because jobs connect to the same address.
func (c *base) credentials(namespace, token string) credentials {
	access := credentials{Namespace: namespace, Host: c.host, SkipTLS: c.skipTLS, Token: token, User: worker}
	if !c.skipTLS {
		access.CA = c.ca
	}
	return access
}
