// Package native is the Go side of include/mortise.h and the only place with cgo in the project.
//
// A Cluster is a handle of the library. What crosses the border in bulk (nodes, pods, candidates, scores) lies in C memory
// that Batch and Candidates own and reuse, and the request structs that point to it do too: no Go pointer is inside what is
// passed, nothing needs to be pinned, and a call allocates nothing once the buffers have grown. (Pinning the
// four slices of a sync with runtime.Pinner instead was measured at 0.4 us, as much as a whole empty sync.) Small outputs
// are on the stack of the caller, which noescape makes possible.
//
// The package knows nothing of Kubernetes. Its element types mirror the header's structs field by field; a difference
// in size or offset does not compile.
//
// Threads: a Cluster may be used from several goroutines. Sync and Score exclude each other; reading calls run beside
// them and return a busy Error when the library is occupied.
package native
