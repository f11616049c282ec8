// Command mortise-demo shows what Mortise does to a GPU cluster. It runs etcd, kube-apiserver and simulated GPU nodes in
// this process and kube-scheduler as a process of its own, submits the same pods under Mortise's scoring and under stock
// scoring, and prints the results side by side.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"mortise.dev/mortise/go-shim/test/workload"
)

// Names of the runs, which are also the keys of the summary.
const (
	runMortise = "mortise"
	runStock   = "stock"
)

// schedulerNames are the profiles of the scheduler configuration that the runs use.
var schedulerNames = map[string]string{runMortise: "mortise", runStock: "mortise-stock"}

type options struct {
	nodes, pods     int
	seed            uint64
	dataDir, trace  string
	load            float64
	runs            []string
	scheduler       string
	schedulerConfig string
	outDir          string
	outstanding     int
	exportDir       string

	terminal *os.File // standard error as the user sees it
}

// gcPercent trades memory, of which this process needs little, for time: the API server shares the machine with what is
// being measured.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	opts := options{terminal: os.Stderr}
	err := opts.command().ExecuteContext(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(opts.terminal, "mortise-demo: interrupted; everything that was started has been stopped")
		os.Exit(130)
	default:
		fmt.Fprintln(opts.terminal, "mortise-demo:", err)
		os.Exit(1)
	}
}

func (o *options) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "mortise-demo",
		Short:         "Schedule a GPU workload on simulated nodes with Mortise and with stock scoring, and compare",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	beside := "kube-scheduler"
	if self, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(self), beside)
	}
	cmd.AddCommand(o.preemptCommand())
	cmd.PersistentFlags().StringVar(&o.scheduler, "scheduler", beside, "kube-scheduler binary")
	cmd.PersistentFlags().StringVar(&o.schedulerConfig, "scheduler-config", "deploy/demo-scheduler-config.yaml", "KubeSchedulerConfiguration with the profiles of the runs")
	cmd.PersistentFlags().StringVar(&o.outDir, "out", "target/demo", "directory for summary.json and logs")
	flags := cmd.Flags()
	flags.IntVar(&o.nodes, "nodes", 200, "nodes of the generated cluster")
	flags.IntVar(&o.pods, "pods", 1600, "pods of the generated workload")
	flags.Uint64Var(&o.seed, "seed", 42, "seed of the workload")
	flags.StringVar(&o.dataDir, "data", "", "directory of the openb trace's CSV files; replaces the generated workload")
	flags.StringVar(&o.trace, "trace", "default", "openb pod list to use with --data: default, multigpu20, gpuspec33, ...")
	flags.Float64Var(&o.load, "load", 1.3, "GPU demand over GPU capacity to which the openb trace is resampled; 0 takes it as it is")
	flags.StringSliceVar(&o.runs, "runs", []string{runMortise, runStock}, "runs to make: mortise, stock")
	flags.IntVar(&o.outstanding, "outstanding", 64, "pods that may be undecided at a time; 1 submits strictly one after another, more may let neighbours change places")
	flags.StringVar(&o.exportDir, "export", "", "write the nodes and the pods in the order of their arrival to nodes.csv and pods.csv in this `directory`, which mortise sim pack --sequence file replays, and run nothing")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	load, err := o.workload()
	if err != nil {
		return err
	}
	if o.exportDir != "" {
		if err := load.Export(o.exportDir); err != nil {
			return err
		}
		fmt.Printf("%s: %d nodes and %d pods written to %s.\n", load.Name, len(load.Nodes), len(load.Pods), o.exportDir)
		return nil
	}
	if err := os.MkdirAll(o.outDir, 0o755); err != nil {
		return err
	}
	if o.terminal, err = redirectLogs(filepath.Join(o.outDir, "control-plane.log")); err != nil {
		return err
	}
	progress := newProgress(o.terminal)
	progress.say("Workload: %s: %d nodes with %d GPUs, %d pods that ask for %.0f GPUs (%.0f %%)",
		load.Name, len(load.Nodes), load.GPUCapacityMilli()/workload.MilliPerCard, len(load.Pods),
		float64(load.GPUDemandMilli())/workload.MilliPerCard, 100*float64(load.GPUDemandMilli())/float64(load.GPUCapacityMilli()))
	summary := Summary{Nodes: len(load.Nodes), Pods: len(load.Pods)}
	violations, err := o.runAll(ctx, load, &summary, progress)
	if err != nil {
		return err
	}
	path := filepath.Join(o.outDir, "summary.json")
	if err := summary.write(path); err != nil {
		return err
	}
	summary.printTable(os.Stdout)
	fmt.Printf("\nWritten to %s; logs are beside it.\n", path)
	if len(violations) > 0 {
		return fmt.Errorf("%d decisions could not be carried out by the nodes, the first: %s", len(violations), violations[0])
	}
	return nil
}

func (o *options) validate() error {
	for _, run := range o.runs {
		if _, ok := schedulerNames[run]; !ok {
			return fmt.Errorf("--runs: there is no run %q, expected some of %s, %s", run, runMortise, runStock)
		}
	}
	if len(o.runs) == 0 {
		return errors.New("--runs is empty, expected some of mortise, stock")
	}
	if o.outstanding < 1 {
		return fmt.Errorf("--outstanding is %d, expected 1 or more", o.outstanding)
	}
	if o.load < 0 || o.load > 100 {
		return fmt.Errorf("--load is %g, expected 0 to 100", o.load)
	}
	if o.exportDir != "" {
		return nil // needs no scheduler
	}
	for _, file := range []struct{ flag, path, make string }{
		{"--scheduler", o.scheduler, "build it with `make build`"},
		{"--scheduler-config", o.schedulerConfig, "start in the root of the repository, or name the file"},
	} {
		if _, err := os.Stat(file.path); err != nil {
			return fmt.Errorf("%s: %w; %s", file.flag, err, file.make)
		}
	}
	return nil
}

func (o *options) workload() (*workload.Workload, error) {
	if o.dataDir != "" {
		return workload.OpenB(o.dataDir, o.trace, o.load, o.seed)
	}
	return workload.Generate(o.nodes, o.pods, o.seed)
}

// redirectLogs sends everything that this process logs to a file, also what libraries write to standard error past every
// logger, and returns the terminal's standard error for the demo. A crash is still reported there.
func redirectLogs(path string) (terminal *os.File, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(os.Stderr.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicating standard error: %w", err)
	}
	terminal = os.NewFile(uintptr(fd), os.Stderr.Name())
	if err := debug.SetCrashOutput(terminal, debug.CrashOptions{}); err != nil {
		return nil, err
	}
	if err := unix.Dup3(int(file.Fd()), int(os.Stderr.Fd()), 0); err != nil {
		return nil, fmt.Errorf("redirecting standard error: %w", err)
	}
	return terminal, file.Close()
}
