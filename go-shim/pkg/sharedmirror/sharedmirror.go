// Package sharedmirror keeps the one mirror and kernel that all profiles and plugins of a scheduler share.
package sharedmirror

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/metrics"
	"mortise.dev/mortise/go-shim/pkg/native"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// Shared is the mirror of one scheduler with the number of profiles that use it.
type Shared struct {
	lister  fwk.SharedLister
	mirror  *snapshot.Mirror
	args    *api.GPUStrandingArgs // of the first profile
	profile string                // the first
	users   int
}

// mirrors holds one mirror per scheduler of the process: one in production, several in tests.
var mirrors = struct {
	sync.Mutex
	of map[fwk.SharedLister]*Shared
	// tiers are rules of a mirror that exists or will: plugins of a profile are made in any order.
	tiers map[fwk.SharedLister]api.TierRules
}{of: make(map[fwk.SharedLister]*Shared), tiers: make(map[fwk.SharedLister]api.TierRules)}

// UseTierRules sets which priorities are which tier for all profiles of the scheduler. It is an error if another profile
// set other rules.
func UseTierRules(handle fwk.Handle, rules api.TierRules) error {
	lister := handle.SnapshotSharedLister()
	mirrors.Lock()
	defer mirrors.Unlock()
	if other, found := mirrors.tiers[lister]; found && other != rules {
		return fmt.Errorf("all profiles share one kernel, so their tiers must agree; profile %s has %+v, another %+v",
			handle.ProfileName(), rules, other)
	}
	mirrors.tiers[lister] = rules
	if shared := mirrors.of[lister]; shared != nil {
		shared.mirror.SetTierRules(rules)
	}
	return nil
}

// DropTierRules forgets what UseTierRules set; for plugins that are closed.
func DropTierRules(handle fwk.Handle) {
	mirrors.Lock()
	defer mirrors.Unlock()
	delete(mirrors.tiers, handle.SnapshotSharedLister())
}

// Of is what the profiles of the scheduler share; nil if none of them has the plugin GPUStranding.
func Of(handle fwk.Handle) *Shared {
	mirrors.Lock()
	defer mirrors.Unlock()
	return mirrors.of[handle.SnapshotSharedLister()]
}

// Acquire makes the scheduler's mirror, or takes the one that another profile made. Release must be called on it.
func Acquire(logger klog.Logger, args *api.GPUStrandingArgs, handle fwk.Handle) (*Shared, error) {
	lister := handle.SnapshotSharedLister()
	mirrors.Lock()
	defer mirrors.Unlock()
	if shared := mirrors.of[lister]; shared != nil {
		if differences := shared.args.SharedDifferences(args); differences != "" {
			return nil, fmt.Errorf("all profiles share one kernel, so their args must agree; profile %s differs (%s)",
				shared.profile, differences)
		}
		shared.users++
		return shared, nil
	}
	mirror, err := snapshot.NewMirror(snapshot.Options{
		Kernel: kernelConfig(args),
		Warn:   warner(handle),
		Freed:  func() { go activatePending(logger, handle) },
		Failed: func(err error, consequence string) {
			logger.Error(err, "The kernel failed; scheduling goes on", "consequence", consequence)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := watchPods(handle, mirror); err != nil {
		_ = mirror.Close()
		return nil, err
	}
	if rules, found := mirrors.tiers[lister]; found {
		mirror.SetTierRules(rules)
	}
	shared := &Shared{lister: lister, mirror: mirror, args: args, profile: handle.ProfileName(), users: 1}
	mirrors.of[lister] = shared
	metrics.SetSource(mirror)
	return shared, nil
}

// Args are the arguments that all profiles agree on.
func (s *Shared) Args() *api.GPUStrandingArgs { return s.args }

// Mirror is the mirror.
func (s *Shared) Mirror() *snapshot.Mirror { return s.mirror }

// Release gives up a profile's part.
func (s *Shared) Release() error {
	mirrors.Lock()
	defer mirrors.Unlock()
	s.users--
	if s.users > 0 {
		return nil
	}
	delete(mirrors.of, s.lister)
	metrics.DropSource(s.mirror)
	return s.mirror.Close()
}

func kernelConfig(args *api.GPUStrandingArgs) native.Config {
	return native.Config{
		Strategy:    args.Strategy,
		Seed:        uint64(*args.Seed),
		MemoBytes:   uint64(*args.MemoMiB) << 20,
		Threads:     int(*args.KernelThreads),
		SkipCPUOnly: !*args.ScoreCPUOnlyPods,
		Observer:    metrics.ObserveCall,
	}
}

// warner tells users about annotations that are ignored. The recorder drops events rather than block.
func warner(handle fwk.Handle) func(*v1.Pod, string) {
	return func(pod *v1.Pod, message string) {
		metrics.DeviceAnnotationIgnored()
		if recorder := handle.EventRecorder(); recorder != nil {
			recorder.Eventf(pod, nil, v1.EventTypeWarning, "GPUDevicesIgnored", "Scheduling", "%s", message)
		}
	}
}

// activatePending lets pods that wait for cards try again.
func activatePending(logger klog.Logger, handle fwk.Handle) {
	factory := handle.SharedInformerFactory()
	if factory == nil {
		return
	}
	pods, err := factory.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		logger.Error(err, "Pods that wait for cards cannot be listed; they are tried again later")
		return
	}
	waiting := make(map[string]*v1.Pod)
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && snapshot.HoldsCards(pod) {
			waiting[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	handle.Activate(logger, waiting)
}

// watchPods lets the API server's word end reservations and quarantines.
func watchPods(handle fwk.Handle, mirror *snapshot.Mirror) error {
	factory := handle.SharedInformerFactory()
	if factory == nil {
		return nil
	}
	bound := func(obj any) {
		if pod, ok := obj.(*v1.Pod); ok && pod.Spec.NodeName != "" {
			mirror.Bound(pod.UID, pod.Spec.NodeName)
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: bound,
		UpdateFunc: func(oldObj, obj any) {
			bound(obj)
			before, ok1 := oldObj.(*v1.Pod)
			after, ok2 := obj.(*v1.Pod)
			if ok1 && ok2 && before.Status.NominatedNodeName != "" && after.Status.NominatedNodeName != before.Status.NominatedNodeName &&
				mirror.Nominated(after.UID) == before.Status.NominatedNodeName {
				mirror.ClearNomination(after.UID)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				mirror.Gone(pod.UID)
			}
		},
	})
	return err
}
