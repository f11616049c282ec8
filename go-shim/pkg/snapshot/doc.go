// Package snapshot translates between the scheduler's world and the kernel's: pods and NodeInfos become flat records,
// card UUIDs become device numbers. It is the only package that knows both.
//
// A Mirror keeps the kernel equal to the scheduler's snapshot. It belongs to one SharedLister, whatever the number of
// profiles. Sync, Rank and Reserve run on the scheduling goroutine; Filter's Room runs beside itself in any number of
// goroutines between two Syncs; Unreserve and what informers report may come from any goroutine at any time.
package snapshot
