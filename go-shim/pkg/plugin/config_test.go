package plugin

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// The strategies of the arguments are those of the kernel.
func TestStrategiesAreTheKernels(t *testing.T) {
	require.ElementsMatch(t, native.Strategies(), api.Strategies)
	require.Equal(t, native.Strategies()[0], api.DefaultStrategy)
}

func TestShippedConfigurations(t *testing.T) {
	h := newHarness(t, options{config: loadConfig(t, "demo-scheduler-config.yaml"), stopped: true})
	weights := func(profile string) map[string]int32 {
		out := map[string]int32{}
		for _, p := range h.sched.Profiles[profile].ListPlugins().Score.Enabled {
			out[p.Name] = p.Weight
		}
		return out
	}
	ours, stock := weights("mortise"), weights("mortise-stock")
	require.EqualValues(t, 1000, ours[Name])
	require.NotContains(t, ours, "NodeResourcesFit")
	require.NotContains(t, ours, "NodeResourcesBalancedAllocation")
	for name, weight := range ours {
		if name != Name {
			require.Less(t, weight*100, ours[Name], "one point of the kernel's choice outweighs all of %s", name)
		}
	}
	require.Contains(t, stock, "NodeResourcesFit")
	require.Contains(t, stock, "NodeResourcesBalancedAllocation")

	for name, f := range h.sched.Profiles {
		plugins := f.ListPlugins()
		names := func(set config.PluginSet) (out []string) {
			for _, p := range set.Enabled {
				out = append(out, p.Name)
			}
			return out
		}
		require.Contains(t, names(plugins.Filter), "NodeResourcesFit", name)
		require.Contains(t, names(plugins.Filter), Name, name)
		require.Contains(t, names(plugins.Reserve), Name, name)
		require.Equal(t, []string{Name}, names(plugins.Bind), name)
		preemption := map[string]string{"mortise": api.PluginGPUPreemption, "mortise-stock": "DefaultPreemption"}[name]
		require.Contains(t, names(plugins.PostFilter), preemption, name)
		for _, other := range []string{api.PluginGPUPreemption, "DefaultPreemption"} {
			require.Equal(t, other == preemption, slices.Contains(names(plugins.PostFilter), other), "one plugin preempts")
		}
	}

	// The production file is the first profile of the demo's.
	production, demo := loadConfig(t, "scheduler-config.yaml"), loadConfig(t, "demo-scheduler-config.yaml")
	require.Len(t, production.Profiles, 1)
	require.Equal(t, production.Profiles[0], demo.Profiles[0])
	require.EqualValues(t, 100, *production.Profiles[0].PercentageOfNodesToScore)
	for _, p := range production.Profiles[0].PluginConfig {
		if p.Name == "PodTopologySpread" {
			require.Equal(t, config.ListDefaulting, p.Args.(*config.PodTopologySpreadArgs).DefaultingType)
		}
	}
}

// A mistake in the arguments stops the start with a sentence that names it.
func TestBadArgumentsStopTheStart(t *testing.T) {
	const base = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: one
    plugins: {multiPoint: {enabled: [{name: GPUStranding}]}}
    pluginConfig: [{name: GPUStranding, args: {FIRST}}]
  - schedulerName: two
    plugins: {multiPoint: {enabled: [{name: GPUStranding}]}}
    pluginConfig: [{name: GPUStranding, args: {SECOND}}]
`
	start := func(first, second string) error {
		cfg := parseConfig(t, strings.NewReplacer("FIRST", first, "SECOND", second).Replace(base))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		client := fake.NewClientset()
		sched, err := scheduler.New(ctx, client, scheduler.NewInformerFactory(client, 0, nil), nil,
			profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
			scheduler.WithProfiles(cfg.Profiles...), scheduler.WithFrameworkOutOfTreeRegistry(registry()))
		if sched != nil {
			require.NoError(t, sched.Profiles.Close())
		}
		return err
	}
	require.NoError(t, start("strategy: fgd", "strategy: fgd, scoring: Disabled"))
	require.ErrorContains(t, start("strategy: bestfit", ""), `args.strategy: Unsupported value: "bestfit"`)
	require.ErrorContains(t, start("stratgy: fgd", ""), `unknown field "stratgy"`)
	require.ErrorContains(t, start("strategy: fgd", "strategy: best-fit"), "fgd and best-fit")
}
