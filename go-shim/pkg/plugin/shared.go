package plugin

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

// sharedMirror is the mirror of one scheduler with the number of profiles that use it.
type sharedMirror struct {
	lister  fwk.SharedLister
	mirror  *snapshot.Mirror
	args    *api.GPUStrandingArgs // of the first profile
	profile string                // the first
	users   int
}

// mirrors holds one mirror per scheduler of the process: one in production, several in tests.
var mirrors = struct {
	sync.Mutex
	of map[fwk.SharedLister]*sharedMirror
}{of: make(map[fwk.SharedLister]*sharedMirror)}

func acquireMirror(logger klog.Logger, args *api.GPUStrandingArgs, handle fwk.Handle) (*sharedMirror, error) {
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
	shared := &sharedMirror{lister: lister, mirror: mirror, args: args, profile: handle.ProfileName(), users: 1}
	mirrors.of[lister] = shared
	metrics.SetSource(mirror)
	return shared, nil
}

func (s *sharedMirror) release() error {
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
		if pod.Spec.NodeName == "" && holdsCards(pod) {
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
		AddFunc:    bound,
		UpdateFunc: func(_, obj any) { bound(obj) },
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
