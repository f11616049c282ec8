// Package api holds every name that users of Mortise see: resources, labels, annotations and their JSON forms, and the
// plugin arguments in a KubeSchedulerConfiguration.
package api
