package preemption

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"mortise.dev/mortise/go-shim/pkg/metrics"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// Pods and jobs remembered; the least recently used are forgotten first.
const maxRemembered = 16_384

// history remembers for which pods others were evicted, so that one that never gets its place does not empty the cluster.
type history struct {
	interval time.Duration

	mu   sync.Mutex
	pods *lru.Cache // types.UID -> past
}

type past struct {
	plans int
	last  time.Time
	told  string // the refusal that the pod's last event was about
}

func newHistory(interval time.Duration) *history {
	return &history{interval: interval, pods: lru.New(maxRemembered)}
}

func (h *history) of(pod types.UID) past {
	if found, ok := h.pods.Get(pod); ok {
		return found.(past)
	}
	return past{}
}

// allows reports whether pods may be evicted for this one now, or else when: one plan in an interval, which each further
// plan doubles, up to eightfold.
func (h *history) allows(pod types.UID, now time.Time) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(pod)
	if p.plans == 0 {
		return time.Time{}, true
	}
	next := p.last.Add(h.interval << min(p.plans-1, 3))
	return next, !now.Before(next)
}

func (h *history) add(pod types.UID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(pod)
	h.pods.Add(pod, past{plans: p.plans + 1, last: now})
}

// forgive takes the last plan back: it came to nothing through no fault of the pod.
func (h *history) forgive(pod types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pods.Remove(pod)
}

// tell reports whether the pod has not been told this yet.
func (h *history) tell(pod types.UID, what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(pod)
	if p.told == what {
		return false
	}
	p.told = what
	h.pods.Add(pod, p)
	return true
}

// Why a preemption was refused.
const (
	refusedRate    = "rate"
	refusedRatio   = "ratio"
	refusedBudgets = "disruption_budgets"
)

// refused tells of a limit that protects running pods, once per preemptor and text.
func (p *GPUPreemption) refused(object runtime.Object, uid types.UID, why, text string) {
	metrics.PreemptionRefused(why)
	if p.history.tell(uid, text) {
		p.event(object, v1.EventTypeWarning, "PreemptionRefused", text)
	}
}

func (p *GPUPreemption) refusal(object runtime.Object, uid types.UID, refusal *snapshot.Refusal) {
	switch {
	case refusal.OverRatio:
		p.refused(object, uid, refusedRatio, refusal.Text)
	case refusal.OverBudget:
		p.refused(object, uid, refusedBudgets, refusal.Text)
	}
}

// unsavedEvictions counts how often each job was evicted since it last saved.
type unsavedEvictions struct {
	mu   sync.Mutex
	jobs *lru.Cache // string -> uint32
}

func newUnsavedEvictions() *unsavedEvictions { return &unsavedEvictions{jobs: lru.New(maxRemembered)} }

func (u *unsavedEvictions) of(pod *v1.Pod) uint32 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n, found := u.jobs.Get(jobOf(pod)); found {
		return n.(uint32)
	}
	return 0
}

// note counts an eviction of the pod's job, or forgets those before a save.
func (u *unsavedEvictions) note(pod *v1.Pod, saved bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	job := jobOf(pod)
	if saved {
		u.jobs.Remove(job)
		return
	}
	n := uint32(1)
	if before, found := u.jobs.Get(job); found {
		n += before.(uint32)
	}
	u.jobs.Add(job, n)
}

// jobOf is what outlives a pod that is evicted: its controller, its gang, or its name.
func jobOf(pod *v1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return string(owner.UID)
	}
	if gang := gangOf(pod); gang != "" {
		return gang
	}
	return pod.Namespace + "/" + pod.Name
}
