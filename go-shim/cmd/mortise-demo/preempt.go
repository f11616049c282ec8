package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/test/cluster"
	"mortise.dev/mortise/go-shim/test/simkubelet"
	"mortise.dev/mortise/go-shim/test/workload"
)

// The cluster and the burst of the preemption demo.
const (
	preemptNodes   = 8
	preemptGPUs    = 8
	windowTimeout  = 90 * time.Second
	demoPollPeriod = 50 * time.Millisecond
)

// burstCards are the GPUs that each pod of the burst asks for.
var burstCards = []int64{2, 2, 2, 2, 2, 3}

// job is how a pod of the demo behaves.
type job struct {
	kind  string
	class string
	ran   time.Duration
	saved time.Duration // how long ago; 0 for never
	save  int           // seconds to save after SIGTERM; 0: it ignores the signal and is killed
}

// jobs fill the cluster in this order, again and again.
var jobs = []job{
	{"saves-on-signal", api.PriorityClassBatch, 3 * time.Hour, 20 * time.Minute, 2},
	{"just-saved", api.PriorityClassBatch, 2 * time.Hour, 30 * time.Second, 0},
	{"never-saved", api.PriorityClassBatch, 5 * time.Hour, 0, 0},
	{"resident", api.PriorityClassTraining, 9 * time.Hour, 10 * time.Minute, 3},
	{"just-started", api.PriorityClassBatch, 40 * time.Second, 0, 0},
	{"saves-on-signal", api.PriorityClassBatch, time.Hour, 15 * time.Minute, 4},
	{"never-saved", api.PriorityClassBatch, 20 * time.Hour, 0, 0},
	{"hourly-saver", api.PriorityClassBatch, 4 * time.Hour, 40 * time.Minute, 0},
}

func (o *options) preemptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "preempt",
		Short: "Show an inference burst that takes GPUs from batch: who is evicted, why, and what is lost",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.preempt(cmd.Context()) },
	}
}

func (o *options) preempt(ctx context.Context) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.outDir, 0o755); err != nil {
		return err
	}
	if o.terminal, err = redirectLogs(filepath.Join(o.outDir, "control-plane.log")); err != nil {
		return err
	}
	var nodes []simkubelet.NodeSpec
	for i := range preemptNodes {
		nodes = append(nodes, simkubelet.NodeSpec{Name: fmt.Sprintf("node-%d", i+1), CPUMilli: 96_000, MemoryMiB: 393_216,
			GPUs: preemptGPUs, GPUModel: "A100", GPUMemoryMiB: 81_920})
	}
	c, err := cluster.Start(ctx, nodes...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	d := &preemptDemo{Cluster: c, jobs: map[string]job{}}
	if err := d.setUp(ctx); err != nil {
		return err
	}
	scheduler, err := o.startScheduler(ctx, c.ControlPlane, runMortise)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scheduler.stop()) }()
	if err := d.fill(ctx); err != nil {
		return err
	}
	fmt.Printf("%d nodes with %d GPUs, all in use: batch and training pods of one GPU.\n", preemptNodes, preemptGPUs)
	fmt.Printf("Now %d inference pods arrive, which ask for %d GPUs.\n\n", len(burstCards), burstGPUs())
	if err := d.burst(ctx); err != nil {
		return err
	}
	return d.report(ctx)
}

// preemptDemo is the cluster of the demo and what its pods are.
type preemptDemo struct {
	*cluster.Cluster
	jobs  map[string]job // by pod name
	began time.Time      // of the burst
}

func (d *preemptDemo) setUp(ctx context.Context) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := d.Client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return err
	}
	for name, value := range map[string]int32{
		api.PriorityClassInference: api.DefaultInferenceMinPriority, api.PriorityClassTraining: api.DefaultTrainingMinPriority,
		api.PriorityClassBatch: 1000,
	} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := d.Client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (d *preemptDemo) create(ctx context.Context, name, class string, cards int64, annotations map[string]string) error {
	pod := workload.Pod{Name: name, CPUMilli: 4000, MemoryMiB: 16_384, GPUs: cards, GPUMilli: workload.MilliPerCard}.Object(namespace, schedulerNames[runMortise])
	grace := int64(120)
	pod.Spec.PriorityClassName, pod.Spec.TerminationGracePeriodSeconds, pod.Annotations = class, &grace, annotations
	_, err := d.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// fill starts a job on every card and makes it look as old as it is meant to be.
func (d *preemptDemo) fill(ctx context.Context) error {
	for i := range preemptNodes * preemptGPUs {
		j := jobs[i%len(jobs)]
		name := fmt.Sprintf("%s-%02d", j.kind, i+1)
		d.jobs[name] = j
		annotations := map[string]string{}
		if j.save > 0 {
			annotations[api.AnnotationCheckpointSaveSeconds] = strconv.Itoa(j.save)
			annotations[api.AnnotationSimExitsAfter] = strconv.Itoa(j.save + 1)
		}
		if err := d.create(ctx, name, j.class, 1, annotations); err != nil {
			return err
		}
	}
	if err := d.waitRunning(ctx, len(d.jobs)); err != nil {
		return err
	}
	for name, j := range d.jobs {
		started := time.Now().Add(-j.ran).UTC().Format(time.RFC3339)
		if err := d.patch(ctx, name, fmt.Sprintf(`{"status":{"startTime":%q}}`, started), "status"); err != nil {
			return err
		}
		if j.saved > 0 {
			if err := d.publish(ctx, name, time.Now().Add(-j.saved)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *preemptDemo) patch(ctx context.Context, name, patch string, subresources ...string) error {
	_, err := d.Client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// publish is what a job does that has saved.
func (d *preemptDemo) publish(ctx context.Context, name string, at time.Time) error {
	return d.patch(ctx, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationLastCheckpoint, at.UTC().Format(time.RFC3339)))
}

func (d *preemptDemo) waitRunning(ctx context.Context, want int) error {
	err := wait.PollUntilContextTimeout(ctx, demoPollPeriod, windowTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := d.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		return err == nil && len(list.Items) >= want, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d running pods: %w", want, err)
	}
	return nil
}

// burst submits the inference pods and plays the jobs' part in the window, until all of the burst runs and every victim is
// gone.
func (d *preemptDemo) burst(ctx context.Context) error {
	d.began = time.Now()
	for i, cards := range burstCards {
		if err := d.create(ctx, fmt.Sprintf("inference-%d", i+1), api.PriorityClassInference, cards, nil); err != nil {
			return err
		}
	}
	saving := map[string]time.Time{}
	err := wait.PollUntilContextTimeout(ctx, demoPollPeriod, windowTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := d.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		started, leaving := 0, 0
		for i := range list.Items {
			pod := &list.Items[i]
			j, known := d.jobs[pod.Name]
			switch {
			case !known && pod.Status.Phase == corev1.PodRunning:
				started++
			case known && pod.DeletionTimestamp != nil:
				leaving++
				told, seen := saving[pod.Name]
				switch {
				case !seen:
					saving[pod.Name] = time.Now()
				case j.save > 0 && !told.IsZero() && time.Since(told) >= time.Duration(j.save)*time.Second:
					saving[pod.Name] = time.Time{}
					if err := d.publish(ctx, pod.Name, time.Now()); err != nil {
						return false, err
					}
				}
			}
		}
		return started == len(burstCards) && leaving == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the burst to run: %w", err)
	}
	return nil
}

// report prints the scheduler's own events: what a user sees in kubectl describe.
func (d *preemptDemo) report(ctx context.Context) error {
	var events []corev1.Event
	err := wait.PollUntilContextTimeout(ctx, demoPollPeriod, windowTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := d.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		events = list.Items
		return len(byObject(events, "Preempted")) == len(byObject(events, "PreemptionOutcome")), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the outcome of every victim: %w", err)
	}
	evicted, outcomes := byObject(events, "Preempted"), byObject(events, "PreemptionOutcome")
	names := make([]string, 0, len(evicted))
	for name := range evicted {
		names = append(names, name)
	}
	slices.Sort(names)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EVICTED\tTIER\tRAN\tLAST SAVE\tOUTCOME")
	for _, name := range names {
		j := d.jobs[name]
		saved := "never"
		if j.saved > 0 {
			saved = short(j.saved) + " ago"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", name, strings.TrimPrefix(j.class, "mortise-"), short(j.ran), saved,
			strings.TrimPrefix(outcomes[name].Message, "Evicted pod "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Println("\nINFERENCE    RUNS AFTER  WHO GOES FOR IT, AND WHY")
	for i := range burstCards {
		name := fmt.Sprintf("inference-%d", i+1)
		pod, err := d.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		wait := time.Duration(0)
		if pod.Status.StartTime != nil {
			wait = max(pod.Status.StartTime.Sub(d.began), 0)
		}
		fmt.Printf("%-11s  %8.0f s  %s\n", name, wait.Seconds(), byObject(events, "Preempting")[name].Message)
	}
	spared := map[string]int{}
	for name, j := range d.jobs {
		if _, gone := evicted[name]; !gone {
			spared[j.kind]++
		}
	}
	if len(names) > 0 {
		last := names[len(names)-1]
		fmt.Printf("\nkubectl describe pod %s:\n  Preempted          %s\n  PreemptionOutcome  %s\n", last, evicted[last].Message, outcomes[last].Message)
	}
	fmt.Printf("\nEvicted %d GPUs for %d asked. Still running: %v.\n", len(evicted), burstGPUs(), spared)
	if len(evicted) > burstGPUs() {
		return fmt.Errorf("%d pods were evicted for %d GPUs", len(evicted), burstGPUs())
	}
	return nil
}

func burstGPUs() (total int) {
	for _, cards := range burstCards {
		total += int(cards)
	}
	return total
}

func byObject(events []corev1.Event, reason string) map[string]corev1.Event {
	out := map[string]corev1.Event{}
	for _, e := range events {
		if e.Reason == reason {
			out[e.InvolvedObject.Name] = e
		}
	}
	return out
}

func short(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	case d >= time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
