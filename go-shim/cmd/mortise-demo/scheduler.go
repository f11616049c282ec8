package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"mortise.dev/mortise/go-shim/test/controlplane"
)

const (
	schedulerStartTimeout = 60 * time.Second
	schedulerStopTimeout  = 15 * time.Second
)

// schedulerProcess is a running kube-scheduler.
type schedulerProcess struct {
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process is gone; exitErr is set then
	exitErr error
	url     string
	http    *http.Client
	logPath string
}

// startScheduler starts the kube-scheduler binary against the control plane and returns when it is ready. Its files and
// its log lie in the output directory.
func (o *options) startScheduler(ctx context.Context, cp *controlplane.ControlPlane, run string) (*schedulerProcess, error) {
	dir, err := filepath.Abs(filepath.Join(o.outDir, "scheduler-"+run))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := cp.WriteKubeconfig(kubeconfig, controlplane.Scheduler); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := renderSchedulerConfig(o.schedulerConfig, config, kubeconfig, schedulerNames[run]); err != nil {
		return nil, err
	}
	certPath, keyPath, err := cp.WriteServingCert(dir, "kube-scheduler")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}

	s := &schedulerProcess{
		url:     fmt.Sprintf("https://127.0.0.1:%d", port),
		exited:  make(chan struct{}),
		logPath: filepath.Join(o.outDir, "kube-scheduler-"+run+".log"),
	}
	log, err := os.Create(s.logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.Command(o.scheduler,
		"--config="+config, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file="+certPath, "--tls-private-key-file="+keyPath,
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// A process group of its own keeps a Ctrl-C for this process to handle; should this process be killed without a
	// chance to clean up, the kernel ends the scheduler too.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.scheduler, err)
	}
	go func() {
		s.exitErr = s.cmd.Wait()
		close(s.exited)
	}()
	if err := s.waitReady(ctx, cp); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *schedulerProcess) waitReady(ctx context.Context, cp *controlplane.ControlPlane) error {
	config, err := cp.RESTConfig(controlplane.Admin)
	if err != nil {
		return err
	}
	if s.http, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, schedulerStartTimeout, true, func(ctx context.Context) (bool, error) {
		if err := s.alive(); err != nil {
			return false, err
		}
		response, err := s.get(ctx, "/readyz")
		if err != nil {
			return false, nil
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("kube-scheduler did not become ready: %w", err)
	}
	return nil
}

// alive returns an error with the last words of the scheduler if it has ended.
func (s *schedulerProcess) alive() error {
	select {
	case <-s.exited:
		return fmt.Errorf("kube-scheduler ended (%v); the end of %s:\n%s", s.exitErr, s.logPath, lastLines(s.logPath, 5))
	default:
		return nil
	}
}

func (s *schedulerProcess) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return nil, err
	}
	return s.http.Do(request)
}

// stop ends the scheduler, by force if it does not follow a SIGTERM.
func (s *schedulerProcess) stop() error {
	select {
	case <-s.exited:
		return nil
	default:
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(schedulerStopTimeout):
		if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-s.exited
		return fmt.Errorf("kube-scheduler did not stop within %s of SIGTERM and was killed", schedulerStopTimeout)
	}
}

// renderSchedulerConfig copies a KubeSchedulerConfiguration and sets what belongs to this machine: the API server, no
// leader election and no client-side rate limit worth mentioning.
func renderSchedulerConfig(from, to, kubeconfig, schedulerName string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	config := map[string]any{}
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	var names []string
	profiles, _ := config["profiles"].([]any)
	for _, profile := range profiles {
		if fields, ok := profile.(map[string]any); ok {
			names = append(names, fmt.Sprint(fields["schedulerName"]))
		}
	}
	if !slices.Contains(names, schedulerName) {
		return fmt.Errorf("%s: no profile has the schedulerName %q; it has %q", from, schedulerName, names)
	}
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": 5000, "burst": 10000}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	if data, err = yaml.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
