// Package plugin is the scheduler-framework plugin GPUStranding: one file per extension point.
//
// A scheduling cycle makes two calls of the kernel: PreFilter syncs the snapshot and reports the pod's arrival, PreScore
// ranks all feasible nodes at once. In large clusters PreFilter makes the second call too, for pods of which the kernel
// knows all demands, and leaves only the best nodes to the filters (narrow.go). Where kube-scheduler skips PreScore (one feasible node, a nominated node) or scoring
// is switched off, Reserve makes the second call to choose cards on the node. Filter and Score only look things up. For a pod that
// fits nowhere, PostFilter asks what is free for it; the plugin that preempts then asks for a plan.
//
// A kernel that fails never stops a pod from being bound: its nodes are then not ranked, cards are chosen in Go, and a
// fresh kernel is built.
package plugin
