package simkubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// Violation is a decision that a real node could not have carried out.
type Violation struct {
	Node    string
	Pod     types.NamespacedName
	PodUID  types.UID
	Reason  Reason
	Message string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s on node %s, pod %s (%s): %s", v.Reason, v.Node, v.Pod, v.PodUID, v.Message)
}

// Options of Start.
type Options struct {
	// Writers is the number of concurrent writers to the API server; 0 means 8.
	Writers int
}

// Kubelet plays all simulated nodes of a cluster. Its methods are safe for concurrent use.
type Kubelet struct {
	client   kubernetes.Interface
	lister   corelisters.PodLister
	synced   cache.InformerSynced
	events   record.EventRecorder
	queue    workqueue.TypedRateLimitingInterface[task]
	cancel   context.CancelFunc
	routines sync.WaitGroup

	mu         sync.Mutex
	nodes      map[string]*simNode
	pods       map[types.UID]*simPod
	violations []Violation
}

type simNode struct {
	spec      NodeSpec
	devices   *deviceTable
	version   int // counts changes of devices
	published int // the version that the Node object shows
}

// simPod is what the node side knows of a pod that was bound to one of its nodes and is not gone yet.
type simPod struct {
	name      types.NamespacedName
	uid       types.UID
	node      string
	rejected  string    // why the node refused it, "" if it was admitted
	killAt    time.Time // when the process ends after SIGTERM; zero while there was none
	exitsSelf bool      // the process ends by itself before the grace period does
	done      bool      // the process has ended; the API object may still be there
}

// Start begins to serve pods bound to nodes that are added with AddNode. The caller must call Stop.
func Start(ctx context.Context, client kubernetes.Interface, opts Options) (*Kubelet, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	k := &Kubelet{
		client: client,
		lister: factory.Core().V1().Pods().Lister(),
		events: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "simulated-kubelet"}),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[task](5*time.Millisecond, 5*time.Second)),
		cancel: cancel,
		nodes:  map[string]*simNode{},
		pods:   map[types.UID]*simPod{},
	}
	registration, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.observe(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { k.observe(obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			k.forget(obj.(*corev1.Pod).UID)
		},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	k.synced = registration.HasSynced
	factory.StartWithContext(ctx)

	writers := opts.Writers
	if writers == 0 {
		writers = 8
	}
	for range writers {
		k.routines.Go(func() { k.write(ctx) })
	}
	k.routines.Go(func() {
		<-ctx.Done()
		k.queue.ShutDown()
		broadcaster.Shutdown()
		factory.Shutdown()
	})
	return k, nil
}

// Stop ends all activity. Objects in the API server stay as they are.
func (k *Kubelet) Stop() {
	k.cancel()
	k.routines.Wait()
}

// observe takes over the state of a bound pod. The informer calls it for one pod after another in the order of the API
// server's history; so a card freed by one pod and given to the next is never seen as given twice.
func (k *Kubelet) observe(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	node, ours := k.nodes[pod.Spec.NodeName]
	if !ours {
		return
	}
	state, known := k.pods[pod.UID]
	if !known {
		state = &simPod{
			name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, uid: pod.UID, node: node.spec.Name,
		}
		k.pods[pod.UID] = state
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		state.done = true
		k.release(node, pod.UID)
		if pod.DeletionTimestamp != nil {
			k.queue.Add(task{removePod, string(pod.UID)})
		}
	case pod.DeletionTimestamp != nil:
		k.terminate(state, pod)
	case !known:
		k.admit(node, state, pod)
		k.queue.Add(task{startPod, string(pod.UID)})
	}
}

// admit gives the pod its cards, or notes why it cannot.
func (k *Kubelet) admit(node *simNode, state *simPod, pod *corev1.Pod) {
	request := deviceRequest(pod)
	if request.empty() {
		return
	}
	var devices []string
	if node.spec.Mode == Enforced {
		chosen, err := deviceChoice(pod)
		if err != nil {
			k.events.Event(pod, corev1.EventTypeWarning, "DeviceChoiceIgnored", err.Error())
		}
		if chosen != nil {
			if reason, message := node.devices.check(request, chosen); reason != "" {
				k.violate(state, reason, message)
			} else {
				devices = chosen
			}
		}
	}
	if devices == nil {
		picked, ok := node.devices.pick(request)
		if !ok {
			state.rejected = fmt.Sprintf("not enough free cards for %+v", request)
			k.violate(state, InsufficientDevices, state.rejected)
			return
		}
		devices = picked
	}
	node.devices.take(pod.UID, request, devices)
	k.changed(node)
}

// terminate is SIGTERM, or a later shortening of the grace period.
func (k *Kubelet) terminate(state *simPod, pod *corev1.Pod) {
	deadline := pod.DeletionTimestamp.Time
	if pod.Status.Phase != corev1.PodRunning {
		deadline = time.Now()
	}
	exitsAfter, declared, err := secondsAnnotation(pod, api.AnnotationSimExitsAfter)
	if err != nil {
		k.events.Event(pod, corev1.EventTypeWarning, "InvalidSimulation", err.Error())
	}
	if state.killAt.IsZero() && declared {
		if exit := time.Now().Add(exitsAfter); exit.Before(deadline) {
			deadline, state.exitsSelf = exit, true
		}
	}
	if !state.killAt.IsZero() && !deadline.Before(state.killAt) {
		return
	}
	state.killAt = deadline
	k.queue.AddAfter(task{removePod, string(pod.UID)}, time.Until(deadline))
}

// forget drops a pod whose object is gone.
func (k *Kubelet) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	state, known := k.pods[uid]
	if !known {
		return
	}
	delete(k.pods, uid)
	if node := k.nodes[state.node]; node != nil {
		k.release(node, uid)
	}
}

func (k *Kubelet) release(node *simNode, uid types.UID) {
	if node.devices.release(uid) {
		k.changed(node)
	}
}

// changed has the new state of the node's cards published.
func (k *Kubelet) changed(node *simNode) {
	node.version++
	if node.spec.Mode == Enforced {
		k.queue.Add(task{syncNode, node.spec.Name})
	}
}

func (k *Kubelet) violate(state *simPod, reason Reason, message string) {
	k.violations = append(k.violations, Violation{
		Node: state.node, Pod: state.name, PodUID: state.uid, Reason: reason, Message: message,
	})
}

// Violations returns everything that a scheduler asked and a real node could not have done, oldest first.
func (k *Kubelet) Violations() []Violation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.violations)
}

// Allocations returns which cards each pod holds at present.
func (k *Kubelet) Allocations() map[types.UID]Allocation {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[types.UID]Allocation{}
	for _, node := range k.nodes {
		maps.Copy(all, node.devices.allocations)
	}
	return all
}
