// Helm: charts are linted, rendered and installed by the real one, with the Kubernetes modules of the tests (go.mod).
package main

import (
	"errors"
	"fmt"
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
)

func main() {
	command, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err == nil {
		err = command.Execute()
	}
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if failed, is := errors.AsType[helm.CommandError](err); is {
		os.Exit(failed.ExitCode)
	}
	os.Exit(1)
}
