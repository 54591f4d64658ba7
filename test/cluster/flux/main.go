// What Flux's kustomize-controller does with the objects of a folder, by the same library: each is compared by a dry run of
// server-side apply and applied where it differs, then kstatus judges whether they are healthy.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "whose rights it has")
	timeout := flag.Duration("wait", 0, "until they are healthy, at most that long")
	flag.Parse()
	if err := apply(context.Background(), *kubeconfig, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func apply(ctx context.Context, kubeconfig string, timeout time.Duration) error {
	objects, err := utils.ReadObjects(os.Stdin)
	if err != nil {
		return err
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// The API server limits fairly by itself, as Flux finds out and goes by.
	config.QPS = -1
	manager, err := managerFor(config)
	if err != nil {
		return err
	}
	changes, err := manager.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions())
	if err != nil {
		return err
	}
	for _, entry := range changes.Entries {
		fmt.Println(entry)
	}
	if timeout == 0 {
		return nil
	}
	options := ssa.WaitOptions{Interval: 500 * time.Millisecond, Timeout: timeout}
	return manager.WaitForSet(changes.ToObjMetadataSet(), options)
}

func managerFor(config *rest.Config) (*ssa.ResourceManager, error) {
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, http)
	if err != nil {
		return nil, err
	}
	cluster, err := client.New(config, client.Options{HTTPClient: http, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	poller := polling.NewStatusPoller(cluster, mapper, polling.Options{})
	return ssa.NewResourceManager(cluster, poller, ssa.Owner{
		Field: "kustomize-controller",
		Group: "kustomize.toolkit.fluxcd.io",
	}), nil
}
