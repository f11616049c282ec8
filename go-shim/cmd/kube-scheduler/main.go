// Command kube-scheduler is the upstream kube-scheduler with Mortise's plugins compiled in.
package main

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"mortise.dev/mortise/go-shim/pkg/native"
	"mortise.dev/mortise/go-shim/pkg/registry"
)

func main() {
	if err := version.SetDynamicVersion(fullVersion(version.Get().GitVersion, native.LibraryHash())); err != nil {
		fmt.Fprintln(os.Stderr, "the version is shown without the library's hash:", err)
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(withPlugins()...)))
}

func withPlugins() (options []app.Option) {
	for name, factory := range registry.Plugins() {
		options = append(options, app.WithPlugin(name, factory))
	}
	return options
}

// fullVersion adds the hash of the linked library to the version of Kubernetes, as build metadata.
func fullVersion(kubernetes, libraryHash string) string {
	base, _, _ := strings.Cut(kubernetes, "+")
	return fmt.Sprintf("%s+mortise.%.12s", base, libraryHash)
}
