// Command kube-scheduler is the upstream kube-scheduler with Mortise's plugins compiled in.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// outOfTreePlugins is the one place where Mortise's plugins are registered.
var outOfTreePlugins = []app.Option{}

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(outOfTreePlugins...)))
}
