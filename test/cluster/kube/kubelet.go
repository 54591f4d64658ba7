//go:build !oldest

package main

import (
	"context"

	"github.com/spf13/cobra"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }
