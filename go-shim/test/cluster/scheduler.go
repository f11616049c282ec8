package cluster

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"mortise.dev/mortise/go-shim/test/controlplane"
)

// SchedulerOptions say which scheduler to run.
type SchedulerOptions struct {
	// ConfigFile is a KubeSchedulerConfiguration; "" means upstream's default.
	ConfigFile string
	// Registry holds the plugins that are not upstream's.
	Registry frameworkruntime.Registry
	// Wrap is put between the scheduler and the API server, to make requests fail; nil means nothing is.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Scheduler is a kube-scheduler that runs in this process with the rights of one.
type Scheduler struct {
	*scheduler.Scheduler

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// StartScheduler starts a scheduler and returns when its caches are filled. The caller must call Stop; a second scheduler
// may be started then, as after a restart.
func (c *Cluster) StartScheduler(ctx context.Context, opts SchedulerOptions) (*Scheduler, error) {
	config, err := loadConfig(ctx, opts.ConfigFile)
	if err != nil {
		return nil, err
	}
	rest, err := c.ControlPlane.RESTConfig(controlplane.Scheduler)
	if err != nil {
		return nil, err
	}
	rest.WrapTransport = opts.Wrap
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(rest)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Scheduler{cancel: cancel}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		cancel()
		return nil, err
	}
	s.done.Go(func() {
		<-ctx.Done()
		broadcaster.Shutdown()
	})
	informers := scheduler.NewInformerFactory(client, 0, nil)
	dynamicInformers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, 0, "", nil)
	s.Scheduler, err = scheduler.New(ctx, client, informers, dynamicInformers, profile.NewRecorderFactory(broadcaster),
		scheduler.WithComponentConfigVersion(config.TypeMeta.APIVersion),
		scheduler.WithKubeConfig(rest),
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(opts.Registry),
		scheduler.WithPodMaxBackoffSeconds(config.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(config.PodInitialBackoffSeconds),
		scheduler.WithParallelism(config.Parallelism),
	)
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("creating the scheduler: %w", err)
	}
	informers.StartWithContext(ctx)
	dynamicInformers.Start(ctx.Done())
	informers.WaitForCacheSyncWithContext(ctx)
	dynamicInformers.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		s.Stop()
		return nil, fmt.Errorf("waiting for the scheduler's caches: %w", err)
	}
	s.done.Go(func() { s.Run(ctx) })
	s.done.Go(func() {
		<-ctx.Done()
		informers.Shutdown()
		dynamicInformers.Shutdown()
	})
	return s, nil
}

// Stop ends the scheduler as a crash would: pods that it has assumed but not bound are left to its successor.
func (s *Scheduler) Stop() {
	s.cancel()
	s.done.Wait()
}

func loadConfig(ctx context.Context, path string) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	if path != "" {
		return options.LoadConfigFromFile(klog.FromContext(ctx), path)
	}
	return latest.Default()
}
