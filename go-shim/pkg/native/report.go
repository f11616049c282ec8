package native

// #include "mortise.h"
import "C"

import (
	"time"
	"unsafe"
)

// Fragmentation reports how much idle GPU the cluster has and how much of it is of no use to typical pods.
func (c *Cluster) Fragmentation() (Fragmentation, error) {
	start, e := time.Now(), newError()
	out := Fragmentation{StructSize: C.sizeof_mortise_fragmentation_report}
	err := result(CallFragmentation, C.mortise_fragmentation(c.handle,
		(*C.mortise_fragmentation_report)(unsafe.Pointer(&out)), &e), &e)
	c.observe(CallFragmentation, start, err)
	return out, err
}

// Stats reports the cluster's counters.
func (c *Cluster) Stats() (Stats, error) {
	start, e := time.Now(), newError()
	out := Stats{StructSize: C.sizeof_mortise_stats_report}
	err := result(CallStats, C.mortise_stats(c.handle, (*C.mortise_stats_report)(unsafe.Pointer(&out)), &e), &e)
	c.observe(CallStats, start, err)
	return out, err
}

// Digest is a 128-bit digest of nodes, pods and models, the same however they were synced.
func (c *Cluster) Digest() ([2]uint64, error) {
	start, e := time.Now(), newError()
	var high, low C.uint64_t
	err := result(CallStateDigest, C.mortise_state_digest(c.handle, &high, &low, &e), &e)
	c.observe(CallStateDigest, start, err)
	return [2]uint64{uint64(high), uint64(low)}, err
}

// ExportState is the state of nodes, pods and models in canonical order, as versioned bytes.
func (c *Cluster) ExportState() ([]byte, error) {
	return c.export(CallStateExport, func(p *C.uint8_t, capacity C.size_t, n *C.size_t, e *C.mortise_error) C.mortise_status {
		return C.mortise_state_export(c.handle, p, capacity, n, e)
	})
}

// ExportLearned is the learned mix with its prices, as versioned bytes.
func (c *Cluster) ExportLearned() ([]byte, error) {
	return c.export(CallLearnedExport, func(p *C.uint8_t, capacity C.size_t, n *C.size_t, e *C.mortise_error) C.mortise_status {
		return C.mortise_learned_export(c.handle, p, capacity, n, e)
	})
}

func (c *Cluster) export(call Call, get func(*C.uint8_t, C.size_t, *C.size_t, *C.mortise_error) C.mortise_status) ([]byte, error) {
	var length C.size_t
	var buffer []byte
	for {
		start, e := time.Now(), newError()
		status := get((*C.uint8_t)(unsafe.SliceData(buffer)), C.size_t(len(buffer)), &length, &e)
		err := result(call, status, &e)
		c.observe(call, start, err)
		switch {
		case StatusOf(err) == StatusBufferTooSmall:
			buffer = make([]byte, e.required)
		case err != nil:
			return nil, err
		case int(length) <= len(buffer):
			return buffer[:length], nil
		default: // the first call only asks for the length
			buffer = make([]byte, length)
		}
	}
}

// ImportLearned replaces the learned mix and its prices by exported ones.
func (c *Cluster) ImportLearned(data []byte) error {
	start, e := time.Now(), newError()
	err := result(CallLearnedImport, C.mortise_learned_import(c.handle, (*C.uint8_t)(unsafe.SliceData(data)),
		C.size_t(len(data)), &e), &e)
	c.observe(CallLearnedImport, start, err)
	return err
}

// DebugPanic makes the library panic and poisons the cluster; only with Config.AllowDebugPanic.
func (c *Cluster) DebugPanic() error {
	start, e := time.Now(), newError()
	err := result(CallDebugPanic, C.mortise_debug_panic(c.handle, &e), &e)
	c.observe(CallDebugPanic, start, err)
	return err
}

// DebugHold keeps the cluster busy; only with Config.AllowDebugHold.
func (c *Cluster) DebugHold(d time.Duration) error {
	start, e := time.Now(), newError()
	err := result(CallDebugHold, C.mortise_debug_hold(c.handle, C.uint32_t(d.Milliseconds()), &e), &e)
	c.observe(CallDebugHold, start, err)
	return err
}
