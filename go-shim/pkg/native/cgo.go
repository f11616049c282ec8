package native

// Calls never come back into Go and keep no pointer, so the runtime need not prepare for either.

/*
#cgo CFLAGS: -std=c11 -I${SRCDIR}/../../../include
#cgo LDFLAGS: ${SRCDIR}/../../../target/release/libmortise.a -lm -ldl -lpthread
#cgo noescape mortise_handshake
#cgo nocallback mortise_handshake
#cgo noescape mortise_cluster_new
#cgo nocallback mortise_cluster_new
#cgo noescape mortise_cluster_free
#cgo nocallback mortise_cluster_free
#cgo noescape mortise_model_intern
#cgo nocallback mortise_model_intern
#cgo noescape mortise_sync
#cgo nocallback mortise_sync
#cgo noescape mortise_learn_from_pods
#cgo nocallback mortise_learn_from_pods
#cgo noescape mortise_score
#cgo nocallback mortise_score
#cgo noescape mortise_explain
#cgo nocallback mortise_explain
#cgo noescape mortise_preempt
#cgo nocallback mortise_preempt
#cgo noescape mortise_preempt_group
#cgo nocallback mortise_preempt_group
#cgo noescape mortise_fragmentation
#cgo nocallback mortise_fragmentation
#cgo noescape mortise_stats
#cgo nocallback mortise_stats
#cgo noescape mortise_state_digest
#cgo nocallback mortise_state_digest
#cgo noescape mortise_state_export
#cgo nocallback mortise_state_export
#cgo noescape mortise_learned_export
#cgo nocallback mortise_learned_export
#cgo noescape mortise_learned_import
#cgo nocallback mortise_learned_import
#cgo noescape mortise_debug_panic
#cgo nocallback mortise_debug_panic
#cgo noescape mortise_debug_hold
#cgo nocallback mortise_debug_hold
#include <stdlib.h>
#include "mortise.h"
*/
import "C"

import "unsafe"

// handshakeError is nil when the library was built for the header this package was compiled with. New returns it.
var handshakeError = func() error {
	info := C.mortise_handshake_info_of_header()
	var e C.mortise_error
	e.struct_size = C.uint32_t(unsafe.Sizeof(e))
	return result(CallHandshake, C.mortise_handshake(&info, &e), &e)
}()

// Version is the library's version.
func Version() string { return C.GoString(C.mortise_version()) }

// Strategies are the names of the library's strategies, the default first.
func Strategies() []string {
	var names []string
	for i := C.uint32_t(0); ; i++ {
		name := C.mortise_strategy_name(i)
		if name == nil {
			return names
		}
		names = append(names, C.GoString(name))
	}
}

// result turns the outcome of a call into nil or an *Error.
func result(call Call, status C.mortise_status, e *C.mortise_error) error {
	if status == C.MORTISE_OK {
		return nil
	}
	return &Error{
		Call:     call,
		Status:   Status(status),
		Message:  C.GoString(&e.message[0]),
		Required: uint64(e.required),
	}
}

func statusName(s Status) string {
	name := C.mortise_status_name(C.mortise_status(s))
	if name == nil {
		return ""
	}
	return C.GoString(name)
}

func reasonName(r Reason) string {
	name := C.mortise_reason_name(C.uint16_t(r))
	if name == nil {
		return ""
	}
	return C.GoString(name)
}
