package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/retry"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/test/controlplane"
)

const (
	sdkDirectory    = "../../../sdk/python"
	checkpointRBAC  = "../../../deploy/checkpoint-rbac.yaml"
	trainingSteps   = 1500
	trainingAccount = "mortise-checkpoint"
	trainingWindow  = 20 // seconds
)

// A training job, run as a process, is preempted, saves within its window, says so with its own service account, and ends
// with the result of a job that nobody disturbed.
func TestTrainingJobResumesAfterPreemption(t *testing.T) {
	undisturbed := t.TempDir()
	output, err := trainCommand(t.Context(), undisturbed, "--step-seconds=0").CombinedOutput()
	require.NoError(t, err, "%s", output)

	f := newFixture(t, node("n1", 8))
	f.tiers()
	f.startScheduler(nil)
	credentials, directory := f.trainingCredentials(), t.TempDir()
	trainer := func(name string) *podProcess {
		f.create(gpuPod{name: name, class: api.PriorityClassBatch, cards: 8, grace: trainingWindow})
		command := trainCommand(f.ctx, directory, "--credentials="+credentials, "--step-seconds=0.005", fmt.Sprintf("--window-seconds=%d", trainingWindow))
		config, err := f.ControlPlane.RESTConfig(controlplane.Admin)
		require.NoError(t, err)
		server, err := url.Parse(config.Host)
		require.NoError(t, err)
		command.Env = append(command.Env, "POD_NAME="+name, "POD_NAMESPACE="+namespace,
			"KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
		return f.runPod(name, command)
	}

	first := trainer("trainer-1")
	f.eventually("trainer-1", func(pod *corev1.Pod) bool { return pod.Annotations[api.AnnotationLastCheckpoint] != "" })
	require.Regexp(t, `^\d+/1500$`, f.get("trainer-1").Annotations[api.AnnotationProgress])
	require.Regexp(t, `^\d+$`, f.get("trainer-1").Annotations[api.AnnotationCheckpointSaveSeconds])
	f.create(gpuPod{name: "inference", class: api.PriorityClassInference, cards: 8})
	f.eventually("inference", runs)
	require.Equal(t, 143, first.exitCode(), "%s", first.output())
	f.eventuallyEvent("PreemptionOutcome", "trainer-1", "saved in time")
	require.NoFileExists(t, filepath.Join(directory, "result.json"))

	f.remove("inference")
	second := trainer("trainer-2")
	f.eventually("trainer-2", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	require.Contains(t, second.output(), "resumed after step")
	want, err := os.ReadFile(filepath.Join(undisturbed, "result.json"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(directory, "result.json"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	require.Empty(t, f.events("CheckpointIgnored"))
}

func trainCommand(ctx context.Context, directory string, arguments ...string) *exec.Cmd {
	arguments = append([]string{sdkDirectory + "/examples/toy_training.py", "--directory=" + directory, fmt.Sprintf("--steps=%d", trainingSteps)}, arguments...)
	command := exec.CommandContext(ctx, "python3", arguments...)
	command.Env = append(os.Environ(), "PYTHONPATH="+sdkDirectory+"/src", "PYTHONDONTWRITEBYTECODE=1")
	return command
}

// trainingCredentials gives the service account of deploy/checkpoint-rbac.yaml its rights and returns a directory like the
// one that the kubelet mounts for it.
func (f *fixture) trainingCredentials() string {
	f.Helper()
	file, err := os.Open(checkpointRBAC)
	require.NoError(f, err)
	defer file.Close()
	decoder := utilyaml.NewYAMLToJSONDecoder(file)
	var account corev1.ServiceAccount
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	for _, object := range []any{&account, &role, &binding} {
		require.NoError(f, decoder.Decode(object))
	}
	require.ErrorIs(f, decoder.Decode(&struct{}{}), io.EOF)
	binding.Subjects[0].Namespace = namespace // as kubectl -n does
	_, err = f.Client.CoreV1().ServiceAccounts(namespace).Create(f.ctx, &account, metav1.CreateOptions{})
	require.NoError(f, err)
	_, err = f.Client.RbacV1().Roles(namespace).Create(f.ctx, &role, metav1.CreateOptions{})
	require.NoError(f, err)
	_, err = f.Client.RbacV1().RoleBindings(namespace).Create(f.ctx, &binding, metav1.CreateOptions{})
	require.NoError(f, err)
	token, err := f.Client.CoreV1().ServiceAccounts(namespace).CreateToken(f.ctx, trainingAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(f, err)
	config, err := f.ControlPlane.RESTConfig(controlplane.Admin)
	require.NoError(f, err)
	directory := f.TempDir()
	require.NoError(f, os.WriteFile(filepath.Join(directory, "token"), []byte(token.Status.Token), 0o600))
	require.NoError(f, os.WriteFile(filepath.Join(directory, "ca.crt"), config.CAData, 0o600))
	return directory
}

// podProcess is the process of a pod's container: the simulated kubelet runs none.
type podProcess struct {
	command *exec.Cmd
	ended   chan struct{}
	mu      sync.Mutex
	written bytes.Buffer
}

// Write takes what the process prints.
func (p *podProcess) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written.Write(data)
}

func (p *podProcess) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written.String()
}

// exitCode waits for the end; it is -1 if a signal ended the process.
func (p *podProcess) exitCode() int {
	<-p.ended
	return p.command.ProcessState.ExitCode()
}

// runPod starts command when the pod runs, sends it SIGTERM when the pod is deleted, SIGKILL at the end of its grace, and
// reports its end in the pod's status.
func (f *fixture) runPod(name string, command *exec.Cmd) *podProcess {
	f.Helper()
	p := &podProcess{command: command, ended: make(chan struct{})}
	command.Stdout, command.Stderr = p, p
	f.eventually(name, runs)
	require.NoError(f, command.Start())
	go func() {
		_ = command.Wait() // the state says it
		close(p.ended)
	}()
	watcher := make(chan error, 1)
	go func() { watcher <- f.followPod(name, p) }()
	f.Cleanup(func() {
		_ = command.Process.Kill() // has ended if all went well
		<-p.ended
		if err := <-watcher; !errors.Is(err, context.Canceled) {
			require.NoError(f, err)
		}
	})
	return p
}

func (f *fixture) followPod(name string, p *podProcess) error {
	watch, err := f.Client.CoreV1().Pods(namespace).Watch(f.ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), // begins with the pod as it is
	})
	if err != nil {
		return err
	}
	defer watch.Stop()
	var kill <-chan time.Time
	for {
		select {
		case event, open := <-watch.ResultChan():
			if !open {
				return f.ctx.Err()
			}
			pod, ok := event.Object.(*corev1.Pod)
			if ok && pod.DeletionTimestamp != nil && kill == nil {
				kill = time.After(time.Until(pod.DeletionTimestamp.Time))
				if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
					return err
				}
			}
		case <-kill:
			_ = p.command.Process.Kill()
		case <-p.ended:
			return f.reportExit(name, int32(p.command.ProcessState.ExitCode()))
		}
	}
}

// reportExit writes the status that a kubelet writes when the container has ended.
func (f *fixture) reportExit(name string, exitCode int32) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pod, err := f.Client.CoreV1().Pods(namespace).Get(f.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodSucceeded
		if exitCode != 0 {
			pod.Status.Phase = corev1.PodFailed
		}
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].State = corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, FinishedAt: metav1.Now()},
			}
		}
		_, err = f.Client.CoreV1().Pods(namespace).UpdateStatus(f.ctx, pod, metav1.UpdateOptions{})
		return err
	})
}
