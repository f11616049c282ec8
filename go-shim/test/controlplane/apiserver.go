package controlplane

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const frontProxyName = "front-proxy-client"

// informerName labels the informer metrics of every API server of this process; a name can be registered only once.
var informerName = sync.OnceValues(func() (*cache.InformerName, error) { return cache.NewInformerName("kube-apiserver") })

// apiServer is a kube-apiserver that runs in this process.
type apiServer struct {
	address string     // host:port of the TLS listener
	done    chan error // receives the result of the run once
}

// apiServerFlags are the flags of a loopback apiserver without any controller beside it: admission must not wait for
// service accounts nor taint new nodes until a node lifecycle controller has seen them.
func apiServerFlags(files *serverFiles, etcdEndpoint string, extra []string) []string {
	return append([]string{
		"--etcd-servers=" + etcdEndpoint,
		"--authorization-mode=RBAC",
		"--anonymous-auth=false",
		"--client-ca-file=" + files.clientCA,
		"--tls-cert-file=" + files.serverCert,
		"--tls-private-key-file=" + files.serverKey,
		"--requestheader-client-ca-file=" + files.frontProxyCA,
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + files.frontProxyCert,
		"--proxy-client-key-file=" + files.frontProxyKey,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + files.serviceAccountKey,
		"--service-account-signing-key-file=" + files.serviceAccountKey,
		"--service-cluster-ip-range=10.0.0.0/16",
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		"--endpoint-reconciler-type=none",
		"--profiling=false",
	}, extra...)
}

// startAPIServer serves on a free port of the loopback interface until ctx ends.
func startAPIServer(ctx context.Context, files *serverFiles, etcdEndpoint string, extraFlags []string) (*apiServer, error) {
	// Several servers may live in one process one after another (tests): each needs a registry of its own, all share
	// the process-wide feature gates, which the rest of the code reads.
	registry := basecompatibility.NewComponentGlobalsRegistry()
	err := registry.Register(basecompatibility.DefaultKubeComponent,
		compatibility.DefaultBuildEffectiveVersion(), utilfeature.DefaultMutableFeatureGate)
	if err != nil {
		return nil, fmt.Errorf("registering feature gates: %w", err)
	}
	s := options.NewServerRunOptions()
	s.GenericServerRunOptions.ComponentGlobalsRegistry = registry

	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		fs.AddFlagSet(set)
	}
	if err := fs.Parse(apiServerFlags(files, etcdEndpoint, extraFlags)); err != nil {
		return nil, fmt.Errorf("kube-apiserver flags: %w", err)
	}
	if err := registry.Set(); err != nil {
		return nil, fmt.Errorf("feature gates of kube-apiserver: %w", err)
	}

	listener, err := net.Listen("tcp", net.JoinHostPort(loopback.String(), "0"))
	if err != nil {
		return nil, fmt.Errorf("listening on loopback: %w", err)
	}
	s.SecureServing.Listener = listener
	s.SecureServing.BindAddress = loopback
	s.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
	s.SecureServing.ExternalAddress = loopback

	completed, err := s.Complete(ctx)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("completing kube-apiserver options: %w", err)
	}
	if completed.InformerName, err = informerName(); err != nil {
		listener.Close()
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		listener.Close()
		return nil, fmt.Errorf("kube-apiserver options: %w", utilerrors.NewAggregate(errs))
	}
	server := &apiServer{address: listener.Addr().String(), done: make(chan error, 1)}
	go func() { server.done <- app.Run(ctx, completed) }()
	return server, nil
}
