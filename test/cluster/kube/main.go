// Every Kubernetes component that the tests need, in one binary: the first argument names the component.
// A control plane is etcd, kube-apiserver and kube-controller-manager; a whole node adds the others.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(controllers.NewControllerManagerCommand),
	"kube-proxy":              command(proxy.NewProxyCommand),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":                 command(func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() }),
	"kubelet":                 command(newKubelet),
}

func command(build func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(build())) }
}

func main() {
	if len(os.Args) > 1 {
		if run, known := components[os.Args[1]]; known {
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	names := make([]string, 0, len(components))
	for name := range components {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: kube {%s} [flags]\n", strings.Join(names, "|"))
	os.Exit(2)
}
