// The two components of Argo CD that compare and apply, in one binary: the first argument names the component.
package main

import (
	"fmt"
	"os"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	repositories "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/spf13/cobra"
)

var components = map[string]func() *cobra.Command{
	"application-controller": controller.NewCommand,
	"repo-server":            repositories.NewCommand,
}

func main() {
	if len(os.Args) > 1 {
		if build, known := components[os.Args[1]]; known {
			os.Args = os.Args[1:]
			if build().Execute() != nil {
				os.Exit(1)
			}
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: argo-cd {application-controller|repo-server} [flags]")
	os.Exit(2)
}
