package api

import (
	"fmt"
	"strconv"
	"time"
)

// MaxDeclaredSeconds bounds the times that pods declare: 30 days.
const MaxDeclaredSeconds = 30 * 86_400

// Checkpoint is the time of the last checkpoint that a pod's annotations publish; zero if they publish none. A value that
// is no time is an error, and counts as none: a pod may be dearer than it says, never cheaper.
func Checkpoint(annotations map[string]string) (time.Time, error) {
	key := AnnotationLastCheckpoint
	value, found := annotations[key]
	if !found {
		key = AnnotationVolcanoLastCheckpoint
		if value, found = annotations[key]; !found {
			return time.Time{}, nil
		}
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is %q, which is not an RFC 3339 time such as 2026-05-01T11:00:00Z; the pod counts as one that never saved", key, value)
	}
	return at, nil
}

// CheckpointSaveSeconds is how long a pod needs to save after SIGTERM; false if it does not say so in whole seconds.
func CheckpointSaveSeconds(annotations map[string]string) (uint32, bool, error) {
	return declared(annotations, AnnotationCheckpointSaveSeconds, 0, MaxDeclaredSeconds, "seconds", "the pod counts as one that does not save when told to stop")
}

// RestartSeconds is how long a pod needs to make progress again; false if it does not say so in whole seconds.
func RestartSeconds(annotations map[string]string) (uint32, bool, error) {
	return declared(annotations, AnnotationRestartSeconds, 0, MaxDeclaredSeconds, "seconds", "the default holds")
}

// GangMinMembers is the number of pods without which a gang cannot run; false if the pod does not say.
func GangMinMembers(annotations map[string]string) (uint32, bool, error) {
	return declared(annotations, AnnotationGangMinMembers, 1, 1<<31-1, "pods", "the gang goes whole")
}

func declared(annotations map[string]string, key string, least, most uint64, unit, consequence string) (uint32, bool, error) {
	value, found := annotations[key]
	if !found {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n < least || n > most {
		return 0, false, fmt.Errorf("%s is %q, which is not a number of %s from %d to %d; %s", key, value, unit, least, most, consequence)
	}
	return uint32(n), true, nil
}

// AnnotationFault is an annotation that cannot be read.
type AnnotationFault struct {
	Checkpoint bool // it is a checkpoint's time
	Err        error
}

// WorkFaults lists the annotations about a pod's work that cannot be read, in a fixed order.
func WorkFaults(annotations map[string]string) []AnnotationFault {
	var out []AnnotationFault
	if _, err := Checkpoint(annotations); err != nil {
		out = append(out, AnnotationFault{Checkpoint: true, Err: err})
	}
	for _, read := range []func(map[string]string) (uint32, bool, error){CheckpointSaveSeconds, RestartSeconds, GangMinMembers} {
		if _, _, err := read(annotations); err != nil {
			out = append(out, AnnotationFault{Err: err})
		}
	}
	return out
}
