package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/metrics"
)

// Reading a pod after its binding returned an error: attempts and the time for all of them.
var rereadBackoff = wait.Backoff{Steps: 4, Duration: 50 * time.Millisecond, Factor: 4, Jitter: 0.1}

const rereadTimeout = 10 * time.Second

// Bind binds the pod and, on nodes where the scheduler chooses cards, publishes the choice in the same write. An error
// of that write says nothing about whether it happened, so the pod is read afterwards.
func (p *GPUStranding) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	start := time.Now()
	defer func() { metrics.ObserveExtensionPoint("Bind", time.Since(start)) }()
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	if cards := p.mirror.Cards(pod, node); len(cards) > 0 {
		choice := api.DeviceChoice{PodUID: string(pod.UID), Node: node, Devices: cards}
		binding.Annotations = map[string]string{api.AnnotationGPUDevices: choice.Format()}
	}
	if err := p.write(ctx, binding); err != nil {
		if err = p.resolve(ctx, pod, node, err); err != nil {
			return fwk.AsStatus(err)
		}
	}
	p.mirror.Bound(pod.UID, node)
	metrics.PodBound()
	return nil
}

func (p *GPUStranding) write(ctx context.Context, binding *v1.Binding) error {
	cacher := p.handle.APICacher()
	if cacher == nil {
		return p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
	finished, err := cacher.BindPod(binding)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, finished)
}

// resolve finds out what a binding that returned an error did. It returns nil if the pod is bound to the node; if that
// is not certain, the pod's cards stay held.
func (p *GPUStranding) resolve(ctx context.Context, pod *v1.Pod, node string, cause error) error {
	logger := klog.FromContext(ctx)
	live, err := p.readLive(ctx, pod)
	switch {
	case apierrors.IsNotFound(err), err == nil && live.UID != pod.UID:
		metrics.BindError(metrics.BindFailed)
		return fmt.Errorf("binding failed and the pod is gone: %w", cause)
	case err != nil:
		p.mirror.InDoubt(pod.UID, node, false)
		metrics.BindError(metrics.BindInDoubt)
		logger.Error(err, "A binding is in doubt: the pod cannot be read; its cards stay held", "pod", klog.KObj(pod),
			"node", node, "cause", cause)
		return fmt.Errorf("binding failed, and whether it took effect is unknown (%w): %w", err, cause)
	case live.Spec.NodeName == node:
		metrics.BindError(metrics.BindCommitted)
		logger.Info("A binding took effect although it returned an error", "pod", klog.KObj(pod), "node", node, "cause", cause)
		return nil
	case live.Spec.NodeName != "":
		metrics.BindError(metrics.BindFailed)
		return fmt.Errorf("the pod is already bound to node %s: %w", live.Spec.NodeName, cause)
	case refused(cause):
		metrics.BindError(metrics.BindFailed)
		return cause
	}
	// The write may still be on its way.
	p.mirror.InDoubt(pod.UID, node, true)
	metrics.BindError(metrics.BindInDoubt)
	return cause
}

func (p *GPUStranding) readLive(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rereadTimeout)
	defer cancel()
	var live *v1.Pod
	err := retry.OnError(rereadBackoff, func(err error) bool { return !apierrors.IsNotFound(err) }, func() (err error) {
		live, err = p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return err
	})
	return live, err
}

// refused reports errors with which the API server says that it did not and will not do it.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTimeout(err) && code != 408
}
