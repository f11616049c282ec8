package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/preemption"
	"mortise.dev/mortise/go-shim/pkg/sharedmirror"
)

// loadConfig reads a shipped configuration as kube-scheduler does.
func loadConfig(t testing.TB, name string) *config.KubeSchedulerConfiguration {
	return parseConfig(t, readConfig(t, name))
}

func readConfig(t testing.TB, name string) string {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", name))
	require.NoError(t, err)
	return string(data)
}

func parseConfig(t testing.TB, yaml string) *config.KubeSchedulerConfiguration {
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(yaml), nil, nil)
	require.NoError(t, err)
	return obj.(*config.KubeSchedulerConfiguration)
}

// harness is kube-scheduler itself with the shipped configuration, over a client that keeps objects in memory. Bindings
// go through bind, which may fail in any way.
type harness struct {
	t      *testing.T
	ctx    context.Context
	client *fake.Clientset
	sched  *scheduler.Scheduler
	plugin *GPUStranding

	writes sync.Mutex // one write of a pod at a time, as in an API server

	mu   sync.Mutex
	bind func(*v1.Binding) bindResult
	seen []*v1.Binding
}

// bindResult says what a binding does and what it returns.
type bindResult struct {
	commit bool
	err    error
}

type options struct {
	config  *config.KubeSchedulerConfiguration // by default the shipped one
	nodes   []*v1.Node
	stopped bool                  // do not run the scheduling loop
	plugins map[string]fwk.Plugin // of others, which the configuration enables
}

func newHarness(t *testing.T, o options) *harness {
	ctx, cancel := context.WithCancel(context.Background())
	h := &harness{t: t, ctx: ctx, client: fake.NewClientset()}
	for _, node := range o.nodes {
		require.NoError(t, h.client.Tracker().Add(node))
	}
	h.client.PrependReactor("create", "pods", h.react)
	plugins := registry()
	for name, plugin := range o.plugins {
		plugins[name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }
	}
	for _, verb := range []string{"patch", "update"} {
		h.client.PrependReactor(verb, "pods", h.write)
	}
	if o.config == nil {
		o.config = loadConfig(t, "scheduler-config.yaml")
	}
	factory := scheduler.NewInformerFactory(h.client, 0, nil)
	var err error
	h.sched, err = scheduler.New(ctx, h.client, factory, nil, h.recorders(),
		scheduler.WithProfiles(o.config.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(plugins),
		scheduler.WithPodInitialBackoffSeconds(1), scheduler.WithPodMaxBackoffSeconds(1))
	require.NoError(t, err)
	h.plugin = sharedPlugin(t, h.sched)
	startInformers(ctx, t, factory, h.sched)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if o.stopped {
			<-ctx.Done()
			h.sched.SchedulingQueue.Close()
			require.NoError(t, h.sched.Profiles.Close())
			return
		}
		h.sched.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-stopped })
	return h
}

func registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{Name: New, preemption.Name: preemption.New}
}

func (h *harness) recorders() profile.RecorderFactory {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: h.client.EventsV1()})
	require.NoError(h.t, broadcaster.StartRecordingToSinkWithContext(h.ctx))
	h.t.Cleanup(broadcaster.Shutdown)
	return profile.NewRecorderFactory(broadcaster)
}

func startInformers(ctx context.Context, t *testing.T, factory informers.SharedInformerFactory, sched *scheduler.Scheduler) {
	schedulermetrics.Register()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	require.NoError(t, sched.WaitForHandlersSync(ctx))
}

// sharedPlugin finds the mirror that the scheduler's profiles share.
func sharedPlugin(t *testing.T, sched *scheduler.Scheduler) *GPUStranding {
	for _, f := range sched.Profiles {
		if shared := sharedmirror.Of(f); shared != nil {
			return &GPUStranding{handle: f, args: shared.Args(), shared: shared, mirror: shared.Mirror()}
		}
	}
	t.Fatal("no profile uses the plugin")
	return nil
}

// react is the API server's side of a binding.
func (h *harness) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
	h.mu.Lock()
	h.seen = append(h.seen, binding)
	bind := h.bind
	h.mu.Unlock()
	result := bindResult{commit: true}
	if bind != nil {
		result = bind(binding)
	}
	if result.commit {
		if err := h.commit(binding); err != nil {
			return true, nil, err
		}
	}
	return true, binding, result.err
}

// write keeps a write, which reads and then stores, from undoing another.
func (h *harness) write(action clienttesting.Action) (bool, runtime.Object, error) {
	h.writes.Lock()
	defer h.writes.Unlock()
	return clienttesting.ObjectReaction(h.client.Tracker())(action)
}

// commit does what the API server does with a binding: node and annotations in one write, once.
func (h *harness) commit(binding *v1.Binding) error {
	h.writes.Lock()
	defer h.writes.Unlock()
	pods := v1.SchemeGroupVersion.WithResource("pods")
	obj, err := h.client.Tracker().Get(pods, binding.Namespace, binding.Name)
	if err != nil {
		return err
	}
	pod := obj.(*v1.Pod).DeepCopy()
	if pod.Spec.NodeName != "" || pod.UID != binding.UID {
		return apierrors.NewConflict(v1.Resource("pods"), binding.Name, fmt.Errorf("pod is already assigned to node %q", pod.Spec.NodeName))
	}
	pod.Spec.NodeName = binding.Target.Name
	for key, value := range binding.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	return h.client.Tracker().Update(pods, pod, binding.Namespace)
}

func (h *harness) onBind(bind func(*v1.Binding) bindResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bind = bind
}

func (h *harness) bindings() []*v1.Binding {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*v1.Binding(nil), h.seen...)
}

func (h *harness) create(pod *v1.Pod) *v1.Pod {
	created, err := h.client.CoreV1().Pods(pod.Namespace).Create(h.ctx, pod, metav1.CreateOptions{})
	require.NoError(h.t, err)
	return created
}

func (h *harness) get(pod *v1.Pod) *v1.Pod {
	live, err := h.client.CoreV1().Pods(pod.Namespace).Get(h.ctx, pod.Name, metav1.GetOptions{})
	require.NoError(h.t, err)
	return live
}

func (h *harness) eventually(condition func() bool, message string, args ...any) {
	h.t.Helper()
	require.Eventually(h.t, condition, 20*time.Second, 5*time.Millisecond, fmt.Sprintf(message, args...))
}

func (h *harness) waitBound(pod *v1.Pod) *v1.Pod {
	h.t.Helper()
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		if live := h.get(pod); live.Spec.NodeName != "" {
			return live
		}
	}
	all, quarantined := h.plugin.mirror.Reservations()
	h.t.Fatalf("pod %s is not bound; its conditions: %+v; %d reservations, %d of them quarantined", pod.Name,
		h.get(pod).Status.Conditions, all, quarantined)
	return nil
}

// waitPending waits until the pod was found unschedulable, and returns why.
func (h *harness) waitPending(pod *v1.Pod) string {
	h.t.Helper()
	message := ""
	h.eventually(func() bool {
		for _, c := range h.get(pod).Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
				message = c.Message
				return true
			}
		}
		return false
	}, "pod %s has no verdict", pod.Name)
	return message
}

var podCount int

// gpuPod makes a pod that asks for pairs of resource and quantity.
func gpuPod(pairs ...string) *v1.Pod {
	podCount++
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("p%d", podCount), Namespace: "default", UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", podCount)),
		},
		Spec: v1.PodSpec{
			SchedulerName: "mortise",
			Containers:    []v1.Container{{Name: "main", Image: "x", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
}

// gpuNode makes a node, in enforced mode with an inventory or with cards that are only counted.
func gpuNode(name string, cards int, enforced bool) *v1.Node {
	list := v1.ResourceList{
		"cpu": resource.MustParse("96"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("110"),
		api.ResourceGPU: *resource.NewQuantity(int64(cards), resource.DecimalSI),
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		api.LabelGPUProduct: "T4", v1.LabelHostname: name,
	}, Annotations: map[string]string{}}}
	if enforced {
		list[api.ResourceGPUPercent] = *resource.NewQuantity(int64(cards)*100, resource.DecimalSI)
		var devices []string
		for i := range cards {
			devices = append(devices, fmt.Sprintf(`{"uuid":"GPU-%s-%d","index":%d,"model":"T4","memory_mib":16384,"healthy":true}`, name, i, i))
		}
		node.Annotations[api.AnnotationGPUInventory] = "[" + strings.Join(devices, ",") + "]"
	}
	node.Status = v1.NodeStatus{Allocatable: list, Capacity: list.DeepCopy()}
	return node
}
