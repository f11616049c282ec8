package preemption

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// Kube-scheduler asks the hints of those plugins alone that refused a pod, which is NodeResourcesFit as a rule and never
// one whose PostFilter had nobody to evict. So pods that may be evicted from now on wake the pods that wait from here.

// waiting are the pods of the profile for which nobody could be evicted.
type waiting struct {
	mu   sync.Mutex
	pods map[types.UID]waiter
	// eased are pods that became evictable. The snapshot of a cycle may still show them as they were.
	eased map[types.UID]*v1.Pod
}

type waiter struct {
	namespace, name string
	priority        int32
}

// Pods remembered that became evictable lately.
const maxEased = 1024

// How long a pod waits that was refused by a snapshot which did not show yet what had changed.
const staleWait = 500 * time.Millisecond

func newWaiting() *waiting {
	return &waiting{pods: make(map[types.UID]waiter), eased: make(map[types.UID]*v1.Pod)}
}

func (w *waiting) add(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[pod.UID] = waiter{namespace: pod.Namespace, name: pod.Name, priority: priorityOf(pod)}
}

func (w *waiting) drop(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, pod)
}

// above lists who waits with a higher priority.
func (w *waiting) above(priority int32) []waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []waiter
	for _, pod := range w.pods {
		if pod.priority > priority {
			out = append(out, pod)
		}
	}
	return out
}

// keepsWaiting notes that nobody could be evicted for the pod. If that was judged by a snapshot older than a change that may help,
// the pod is tried again.
func (p *GPUPreemption) keepsWaiting(ctx context.Context, pod *v1.Pod) {
	p.waiting.add(pod)
	if p.staleSnapshot() {
		who := waiter{namespace: pod.Namespace, name: pod.Name, priority: priorityOf(pod)}
		logger := klog.FromContext(ctx)
		time.AfterFunc(staleWait, func() { p.activate(logger, who) })
	}
}

// staleSnapshot reports whether the snapshot of this cycle shows a pod as it was before it became evictable.
func (p *GPUPreemption) staleSnapshot() bool {
	p.waiting.mu.Lock()
	defer p.waiting.mu.Unlock()
	stale := false
	for uid, now := range p.waiting.eased {
		shown := p.shown(now)
		if shown != nil && p.eases(shown, now) {
			stale = true
			continue
		}
		delete(p.waiting.eased, uid)
	}
	return stale
}

// shown is the pod as the snapshot has it; nil if it does not.
func (p *GPUPreemption) shown(pod *v1.Pod) *v1.Pod {
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(pod.Spec.NodeName)
	if err != nil {
		return nil
	}
	if found := podInfoOf(info, pod); found != nil {
		return found.GetPod()
	}
	return nil
}

// eases reports whether a running pod may be evicted after the change by rules that kept it before, alone or with less of
// its gang.
func (p *GPUPreemption) eases(before, after *v1.Pod) bool {
	if after.Spec.NodeName == "" || after.DeletionTimestamp != nil {
		return false
	}
	inference := func(pod *v1.Pod) bool { return p.tierOf(pod) == api.TierInference }
	return p.consents(after) && !p.consents(before) || inference(before) && !inference(after) || declaredGang(before) != declaredGang(after)
}

// wakeAfter tries the pods again that a change of a running pod may help.
func (p *GPUPreemption) wakeAfter(logger klog.Logger, before, after *v1.Pod) {
	if !p.eases(before, after) {
		return
	}
	p.waiting.mu.Lock()
	if len(p.waiting.eased) >= maxEased {
		clear(p.waiting.eased) // who misses a change by this is tried by the queue's own clock
	}
	p.waiting.eased[after.UID] = after
	p.waiting.mu.Unlock()
	p.activate(logger, p.waiting.above(priorityOf(after))...)
}

// wakeAll tries all pods again for which nobody could be evicted.
func (p *GPUPreemption) wakeAll(logger klog.Logger) {
	const lowest = -1 << 31
	p.activate(logger, p.waiting.above(lowest)...)
}

func (p *GPUPreemption) activate(logger klog.Logger, who ...waiter) {
	lister := p.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	pods := make(map[string]*v1.Pod)
	for _, w := range who {
		if pod, err := lister.Pods(w.namespace).Get(w.name); err == nil && pod.Spec.NodeName == "" {
			pods[w.namespace+"/"+w.name] = pod
		}
	}
	if len(pods) > 0 {
		p.handle.Activate(logger, pods)
	}
}
