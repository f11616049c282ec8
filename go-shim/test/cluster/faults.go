package cluster

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
)

// ErrInjected is the error of a request whose answer was lost.
var ErrInjected = errors.New("injected fault")

// BindFaults makes binding requests of a scheduler fail.
type BindFaults struct {
	// Refused and Committed count the faults of each kind so far.
	Refused, Committed atomic.Int64

	decide func() Fault
}

// NewBindFaults returns faults that decide picks, one call for each binding request, never two at a time.
func NewBindFaults(decide func() Fault) *BindFaults {
	var mu sync.Mutex
	return &BindFaults{decide: func() Fault {
		mu.Lock()
		defer mu.Unlock()
		return decide()
	}}
}

// RandomBindFaults refuses each binding request with the given probability and commits but fails it with another.
func RandomBindFaults(seed uint64, refuse, commitAndFail float64) *BindFaults {
	rng := rand.New(rand.NewPCG(seed, 2))
	return NewBindFaults(func() Fault {
		switch x := rng.Float64(); {
		case x < refuse:
			return Refuse
		case x < refuse+commitAndFail:
			return CommitAndFail
		default:
			return Pass
		}
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
		default:
			return next.RoundTrip(request)
		}
	})
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
