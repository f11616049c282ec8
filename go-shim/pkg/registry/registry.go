// Package registry lists Mortise's plugins, for every program that runs them.
package registry

import (
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"mortise.dev/mortise/go-shim/pkg/plugin"
	"mortise.dev/mortise/go-shim/pkg/preemption"
)

// Plugins are the factories of all plugins by name.
func Plugins() frameworkruntime.Registry {
	return frameworkruntime.Registry{plugin.Name: plugin.New, preemption.Name: preemption.New}
}
