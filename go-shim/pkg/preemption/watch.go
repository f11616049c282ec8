package preemption

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// watch follows victims to their end, and what running pods say of themselves. All that is needed is on the pods, so a
// restart forgets none.
func (p *GPUPreemption) watch() error {
	_, err := p.handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pod, ok := obj.(*v1.Pod); ok {
				p.warnUnreadable(nil, pod)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*v1.Pod)
			after, ok2 := newObj.(*v1.Pod)
			if !ok1 || !ok2 || before.ResourceVersion == after.ResourceVersion {
				return
			}
			p.warnUnreadable(before, after)
			if checkpointOf(after).After(checkpointOf(before)) && saved(after, p.now()) {
				p.unsaved.note(after, true)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				p.ended(pod, p.now())
			}
		},
	})
	return err
}
