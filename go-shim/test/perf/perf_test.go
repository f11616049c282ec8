package perf

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdmain"
	benchmark "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"mortise.dev/mortise/go-shim/pkg/registry"
)

// etcdName is the program that scheduler_perf looks for on PATH; it gets this binary under that name.
const etcdName = "etcd"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == etcdName {
		// Nothing that is written here outlives the run, so that the disk need not be waited for.
		etcdmain.Main(append(os.Args, "--unsafe-no-fsync"))
		return
	}
	if err := benchmark.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// putEtcdOnPath makes this binary the etcd that scheduler_perf starts.
func putEtcdOnPath(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, etcdName)); err != nil {
		b.Fatal(err)
	}
	b.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func BenchmarkPerfScheduling(b *testing.B) {
	putEtcdOnPath(b)
	results := os.Getenv("PERF_RESULTS")
	if results == "" {
		b.Fatal("PERF_RESULTS is not set; expected a directory for the results, or run `make perf`")
	}
	b.Setenv("ARTIFACTS", results) // scheduler_perf writes its logs there
	if err := flag.Set("data-items-dir", results); err != nil {
		b.Fatal(err)
	}
	before, err := resultFiles(results)
	if err != nil {
		b.Fatal(err)
	}
	plugins := registry.Plugins()
	benchmark.PluginNames = slices.AppendSeq(benchmark.PluginNames, maps.Keys(plugins))
	benchmark.RunBenchmarkPerfScheduling(b, "workloads.yaml", "mortise", plugins, benchmark.WithPreRunFn(announce))
	if b.Failed() {
		return
	}
	after, err := resultFiles(results)
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range after[len(before):] {
		table, err := compare(file)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Print(table)
	}
}

// announce says which workload begins.
func announce(tCtx ktesting.TContext, _ *benchmark.Workload) (func(), error) {
	fmt.Println("perf:", tCtx.Name())
	return nil, nil
}
