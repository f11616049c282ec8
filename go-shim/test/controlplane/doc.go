// Package controlplane runs etcd and kube-apiserver inside the calling process, on loopback, with certificates and
// RBAC of their own. It needs no cluster, no container runtime and no other binary.
//
// Controllers are absent on purpose: nodes stay as they are written, and bound pods stay Pending until somebody plays
// the kubelet (package simkubelet).
package controlplane
