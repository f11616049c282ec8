package native

import (
	"errors"
	"fmt"
)

// Status is a mortise_status.
type Status int32

// Statuses that callers tell apart; all of them have a String.
const (
	StatusLimitExceeded  Status = 12
	StatusBufferTooSmall Status = 13
	StatusBusy           Status = 14
	StatusPoisoned       Status = 15
	StatusPanic          Status = 16
	StatusBadHandle      Status = 7
)

// String is the header's name of the status, without its prefix.
func (s Status) String() string {
	if name := statusName(s); name != "" {
		return name
	}
	return fmt.Sprintf("status %d", int32(s))
}

// Reason says why a node does not take a pod (MORTISE_REASON_*); 0 if it does.
type Reason uint16

// String is the reason's fixed word, such as "InsufficientCpu".
func (r Reason) String() string {
	if name := reasonName(r); name != "" {
		return name
	}
	return fmt.Sprintf("reason %d", uint16(r))
}

// Error is a call that the library refused or that failed in it.
type Error struct {
	Call     Call
	Status   Status
	Message  string // names the field and the value
	Required uint64 // StatusBufferTooSmall: the capacity that is needed
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("kernel call %s: %s: %s", e.Call, e.Status, e.Message)
}

// StatusOf is the Status of an error of this package, or 0 for any other.
func StatusOf(err error) Status {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// IsBusy reports whether another call held the cluster: nothing is wrong, and a later call may succeed.
func IsBusy(err error) bool { return StatusOf(err) == StatusBusy }

// IsDead reports whether the cluster cannot be used any more, so that a new one must be built.
func IsDead(err error) bool {
	switch StatusOf(err) {
	case StatusPanic, StatusPoisoned, StatusBadHandle:
		return true
	}
	return false
}
