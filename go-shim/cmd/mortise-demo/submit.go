package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"mortise.dev/mortise/go-shim/test/workload"
)

const (
	// stallTimeout is how long nothing may be decided before the run is given up.
	stallTimeout = 60 * time.Second
	creators     = 4
	deleters     = 4
)

// tally counts decisions.
type tally struct {
	submitted, bound, unschedulable int
}

func (t tally) decided() int { return t.bound + t.unschedulable }

// submission feeds pods to the scheduler in the order of their arrival. As in the published experiment a pod gets one
// chance: once it is reported unschedulable it is removed and not tried again.
type submission struct {
	client kubernetes.Interface
	slots  chan struct{}    // one for each pod that may be undecided
	failed chan *corev1.Pod // reported unschedulable, to be removed

	mu        sync.Mutex
	undecided map[string]bool // by pod name; true while it is being removed
	tally     tally
	lastMove  time.Time
}

func newSubmission(client kubernetes.Interface, outstanding int) *submission {
	return &submission{
		client: client, slots: make(chan struct{}, outstanding), failed: make(chan *corev1.Pod, 4*outstanding),
		undecided: map[string]bool{}, lastMove: time.Now(),
	}
}

func (s *submission) counts() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tally
}

// run submits all pods and returns when each is bound or has been given up. alive is asked now and then; its error ends
// the run.
func (s *submission) run(ctx context.Context, pods []workload.Pod, schedulerName string, alive func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(namespace))
	registration, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.observe(ctx, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { s.observe(ctx, obj.(*corev1.Pod)) },
	})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	var routines sync.WaitGroup
	defer func() {
		cancel(nil)
		routines.Wait()
		factory.Shutdown()
	}()
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return context.Cause(ctx)
	}
	for range deleters {
		routines.Go(func() { s.removeFailed(ctx, cancel) })
	}
	routines.Go(func() { s.watchdog(ctx, cancel, alive) })
	return s.submitAll(ctx, pods, schedulerName)
}

// submitAll creates the pods, creators at a time, so that neighbours may change places; all of them have been decided when
// it returns.
func (s *submission) submitAll(ctx context.Context, pods []workload.Pod, schedulerName string) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(min(creators, cap(s.slots)))
	for i := range pods {
		if err := s.slot(groupCtx); err != nil {
			break
		}
		group.Go(func() error { return s.create(groupCtx, pods[i], schedulerName) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for range cap(s.slots) { // all slots are free again when everything is decided
		if err := s.slot(ctx); err != nil {
			return err
		}
	}
	return nil
}

// slot waits until one more pod may be undecided.
func (s *submission) slot(ctx context.Context) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *submission) create(ctx context.Context, pod workload.Pod, schedulerName string) error {
	s.mu.Lock()
	s.undecided[pod.Name] = false
	s.tally.submitted++
	s.mu.Unlock()
	_, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod.Object(namespace, schedulerName), metav1.CreateOptions{})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("creating pod %q: %w", pod.Name, err)
	}
}

func (s *submission) observe(ctx context.Context, pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		s.settle(pod.Name, func(t *tally) { t.bound++ })
		return
	}
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable && s.claim(pod.Name) {
			select {
			case s.failed <- pod:
			case <-ctx.Done():
			}
		}
	}
}

// claim tells whether the pod is undecided and nobody is removing it yet; from then on the caller is.
func (s *submission) claim(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	removing, undecided := s.undecided[name]
	if undecided {
		s.undecided[name] = true
	}
	return undecided && !removing
}

// settle counts a decision once and makes room for the next pod.
func (s *submission) settle(name string, count func(*tally)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, undecided := s.undecided[name]; !undecided {
		return
	}
	delete(s.undecided, name)
	count(&s.tally)
	s.lastMove = time.Now()
	<-s.slots
}

func (s *submission) removeFailed(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		select {
		case pod := <-s.failed:
			if err := s.remove(ctx, pod); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("removing unschedulable pod %q: %w", pod.Name, err))
			}
		case <-ctx.Done():
			return
		}
	}
}

// remove removes a pod that was reported unschedulable, unless it has been bound since: then that is what counts.
func (s *submission) remove(ctx context.Context, pod *corev1.Pod) error {
	for {
		options := metav1.NewDeleteOptions(0)
		options.Preconditions = &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
		err := s.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, *options)
		if err == nil {
			s.settle(pod.Name, func(t *tally) { t.unschedulable++ })
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		if pod, err = s.client.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.Spec.NodeName != "" {
			s.settle(pod.Name, func(t *tally) { t.bound++ })
			return nil
		}
	}
}

func (s *submission) watchdog(ctx context.Context, cancel context.CancelCauseFunc, alive func() error) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := alive(); err != nil {
			cancel(err)
			return
		}
		s.mu.Lock()
		stalled, waiting := time.Since(s.lastMove), len(s.undecided)
		s.mu.Unlock()
		if stalled > stallTimeout {
			cancel(fmt.Errorf("nothing was decided for %s while %d pods wait", stallTimeout, waiting))
			return
		}
	}
}
