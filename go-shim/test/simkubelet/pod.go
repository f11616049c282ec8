package simkubelet

import (
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// deviceRequest reads what pod asks of the cards of its node.
func deviceRequest(pod *corev1.Pod) DeviceRequest {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return DeviceRequest{
		Cards:   requests.Name(api.ResourceGPU, "").Value(),
		Percent: requests.Name(api.ResourceGPUPercent, "").Value(),
	}
}

// deviceChoice reads the scheduler's choice. It returns no devices and no error if there is none.
func deviceChoice(pod *corev1.Pod) ([]string, error) {
	value, ok := pod.Annotations[api.AnnotationGPUDevices]
	if !ok {
		return nil, nil
	}
	choice, err := api.ParseDeviceChoice(value, string(pod.UID), pod.Spec.NodeName)
	if err != nil {
		return nil, fmt.Errorf("annotation %s is not followed: %w", api.AnnotationGPUDevices, err)
	}
	return choice.Devices, nil
}

// secondsAnnotation reads a duration in seconds. ok is false if the annotation is absent.
func secondsAnnotation(pod *corev1.Pod, name string) (d time.Duration, ok bool, err error) {
	value, ok := pod.Annotations[name]
	if !ok {
		return 0, false, nil
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > math.MaxInt32 {
		return 0, false, fmt.Errorf("annotation %s is %q, expected seconds from 0 to %d", name, value, math.MaxInt32)
	}
	return time.Duration(seconds * float64(time.Second)), true, nil
}

// podIP derives an address from the pod, so that it is stable; it is unique enough for what nobody connects to.
func podIP(pod *corev1.Pod) string {
	h := fnv.New32a()
	h.Write([]byte(pod.UID))
	sum := h.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", 64+sum>>18&63, sum>>8&255, 1+sum%254)
}

// setRunning writes the status of a pod whose containers have started.
func setRunning(pod *corev1.Pod, now metav1.Time) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &now
	pod.Status.PodIP = podIP(pod)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.HostIP = "127.0.0.1"
	pod.Status.HostIPs = []corev1.HostIP{{IP: pod.Status.HostIP}}
	for _, condition := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		podutil.UpdatePodCondition(&pod.Status, &corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue})
	}
	started := true
	pod.Status.ContainerStatuses = nil
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}

// setTerminated writes the status of a pod whose containers have ended with exitCode.
func setTerminated(pod *corev1.Pod, now metav1.Time, exitCode int32, reason string) {
	pod.Status.Phase = corev1.PodSucceeded
	if exitCode != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	for _, condition := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		podutil.UpdatePodCondition(&pod.Status, &corev1.PodCondition{Type: condition, Status: corev1.ConditionFalse})
	}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		terminated := &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason, FinishedAt: now}
		if c.State.Running != nil {
			terminated.StartedAt = c.State.Running.StartedAt
		}
		c.Ready, c.State = false, corev1.ContainerState{Terminated: terminated}
	}
}

// setRejected writes the status of a pod that its node refused to admit, in the kubelet's words.
func setRejected(pod *corev1.Pod, message string) {
	pod.Status.Phase = corev1.PodFailed
	pod.Status.Reason = "UnexpectedAdmissionError"
	pod.Status.Message = message
}
