package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is what happens to a request.
type Fault int

const (
	// Pass lets the request through.
	Pass Fault = iota
	// Refuse has the API server say no, as an admission webhook would.
	Refuse
	// CommitAndFail lets the API server carry out the request, and fails the answer.
	CommitAndFail
	// Lose keeps the request from the API server, and fails the answer.
	Lose
	// Delay fails the answer at once, and lets the request reach the API server lateBy later.
	Delay
)

// lateBy is longer than reading the pod takes, and shorter than the back-off of a pod whose binding failed.
const lateBy = 300 * time.Millisecond

// ErrInjected is the error of a request of which the scheduler does not hear whether it was carried out.
var ErrInjected = errors.New("injected fault")

// BindFaults makes binding requests of a scheduler fail.
type BindFaults struct {
	// How often each fault happened so far.
	Refused, Committed, Lost, Delayed atomic.Int64

	decide func() Fault
	late   sync.WaitGroup // requests that are under way
}

// Wait returns when no delayed request is under way any more.
func (f *BindFaults) Wait() { f.late.Wait() }

// NewBindFaults returns faults that decide picks, one call for each binding request, never two at a time.
func NewBindFaults(decide func() Fault) *BindFaults {
	var mu sync.Mutex
	return &BindFaults{decide: func() Fault {
		mu.Lock()
		defer mu.Unlock()
		return decide()
	}}
}

// Likelihood is the probability of a fault.
type Likelihood struct {
	Fault       Fault
	Probability float64
}

// RandomBindFaults gives each binding request at most one of the faults.
func RandomBindFaults(seed uint64, faults ...Likelihood) *BindFaults {
	rng := rand.New(rand.NewPCG(seed, 2))
	return NewBindFaults(func() Fault {
		x := rng.Float64()
		for _, f := range faults {
			if x < f.Probability {
				return f.Fault
			}
			x -= f.Probability
		}
		return Pass
	})
}

// Wrap is for SchedulerOptions.Wrap.
func (f *BindFaults) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/binding") {
			return next.RoundTrip(request)
		}
		switch f.decide() {
		case Refuse:
			f.Refused.Add(1)
			return refusal(request), nil
		case CommitAndFail:
			response, err := next.RoundTrip(request)
			if err != nil {
				return nil, err
			}
			response.Body.Close()
			f.Committed.Add(1)
			return nil, ErrInjected
		case Lose:
			f.Lost.Add(1)
			return nil, errors.Join(ErrInjected, request.Body.Close())
		case Delay:
			f.Delayed.Add(1)
			return nil, errors.Join(ErrInjected, f.sendLater(request, next))
		default:
			return next.RoundTrip(request)
		}
	})
}

func (f *BindFaults) sendLater(request *http.Request, next http.RoundTripper) error {
	body, err := io.ReadAll(request.Body)
	if err = errors.Join(err, request.Body.Close()); err != nil {
		return err
	}
	late := request.Clone(context.WithoutCancel(request.Context()))
	late.Body = io.NopCloser(bytes.NewReader(body))
	f.late.Add(1)
	time.AfterFunc(lateBy, func() {
		defer f.late.Done()
		if response, err := next.RoundTrip(late); err == nil { // nobody is left to hear of an error
			response.Body.Close()
		}
	})
	return nil
}

// refusal is the API server's answer to a request that it does not carry out.
func refusal(request *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"injected fault"}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Status: "403 Forbidden", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)), Request: request,
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
