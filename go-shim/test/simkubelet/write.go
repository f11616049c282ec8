package simkubelet

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// task is one write to the API server. Tasks of one key are never run at the same time and merge while they wait.
type task struct {
	kind taskKind
	key  string // pod UID, or node name for syncNode
}

type taskKind int

const (
	startPod    taskKind = iota // report Running, or the refusal
	completePod                 // the process ended by itself: report Succeeded
	removePod                   // the process ended after SIGTERM: report it and remove the object
	syncNode                    // publish the state of the node's cards
)

func (k *Kubelet) write(ctx context.Context) {
	for {
		t, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		err := k.run(ctx, t)
		switch {
		case err == nil || apierrors.IsNotFound(err):
			k.queue.Forget(t)
		case ctx.Err() != nil:
		default:
			if !apierrors.IsConflict(err) {
				klog.FromContext(ctx).Error(err, "Simulated kubelet retries a write", "key", t.key, "kind", t.kind)
			}
			k.queue.AddRateLimited(t)
		}
		k.queue.Done(t)
	}
}

func (k *Kubelet) run(ctx context.Context, t task) error {
	if t.kind == syncNode {
		return k.publish(ctx, t.key)
	}
	state, ok := k.pod(types.UID(t.key))
	if !ok {
		return nil
	}
	pod, err := k.lister.Pods(state.name.Namespace).Get(state.name.Name)
	if err != nil || pod.UID != state.uid {
		return err // gone: NotFound is no error for the caller; a namesake is another pod's business
	}
	switch t.kind {
	case startPod:
		return k.start(ctx, state, pod)
	case completePod:
		return k.end(ctx, pod, 0, "Completed")
	default:
		return k.remove(ctx, state, pod)
	}
}

func (k *Kubelet) pod(uid types.UID) (simPod, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	state, ok := k.pods[uid]
	if !ok {
		return simPod{}, false
	}
	return *state, true
}

func (k *Kubelet) start(ctx context.Context, state simPod, pod *corev1.Pod) error {
	if pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
		return nil
	}
	pod = pod.DeepCopy()
	if state.rejected != "" {
		setRejected(pod, state.rejected)
	} else {
		setRunning(pod, metav1.Now())
	}
	if _, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return err
	}
	runsFor, declared, err := secondsAnnotation(pod, api.AnnotationSimRunsFor)
	if err != nil {
		k.events.Event(pod, corev1.EventTypeWarning, "InvalidSimulation", err.Error())
	}
	if declared && state.rejected == "" {
		k.queue.AddAfter(task{completePod, string(pod.UID)}, runsFor)
	}
	return nil
}

// end reports that the containers ended, once.
func (k *Kubelet) end(ctx context.Context, pod *corev1.Pod, exitCode int32, reason string) error {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	pod = pod.DeepCopy()
	setTerminated(pod, metav1.Now(), exitCode, reason)
	_, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// remove finishes a graceful deletion: the end is reported first, then the object goes.
func (k *Kubelet) remove(ctx context.Context, state simPod, pod *corev1.Pod) error {
	if !state.done {
		if wait := time.Until(state.killAt); wait > 0 {
			k.queue.AddAfter(task{removePod, string(pod.UID)}, wait)
			return nil
		}
		exitCode, reason := int32(137), "Error"
		if state.exitsSelf {
			exitCode, reason = 0, "Completed"
		}
		if err := k.end(ctx, pod, exitCode, reason); err != nil {
			return err
		}
	}
	now := metav1.NewDeleteOptions(0)
	now.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *now)
}

// publish writes the state of a node's cards.
func (k *Kubelet) publish(ctx context.Context, name string) error {
	k.mu.Lock()
	node, ok := k.nodes[name]
	if !ok || node.spec.Mode != Enforced {
		k.mu.Unlock()
		return nil
	}
	version := node.version
	allocatable, annotations := deviceReport(node.devices)
	k.mu.Unlock()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"status":   map[string]any{"allocatable": allocatable},
	})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	k.mu.Lock()
	node.published = version
	k.mu.Unlock()
	return nil
}
