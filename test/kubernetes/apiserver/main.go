// Command kube is the API server of Kubernetes and the controllers that the tests of the driver kubernetes need, in one
// program. The first argument names the component. The complete controller manager and kubectl would add 576 packages to
// the build (see ../README.md).
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	components := map[string]func() *cobra.Command{
		"apiserver":   apiserver.NewAPIServerCommand,
		"controllers": newControllersCommand,
	}
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: kube apiserver|controllers …")
		os.Exit(2)
	}
	name := os.Args[1]
	os.Args = os.Args[1:]
	os.Exit(cli.Run(components[name]()))
}
