package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// inputsPlane has one job of kind thumbnail with several inputs. Each of its connections breaks after some bytes.
type inputsPlane struct {
	filePlane

	inputs   []string
	gone     int // the number of an input that is not kept any more
	wrong    int // the number of an input that arrives as something else the first time
	features []string
	asked    []string
}

func (p *inputsPlane) Lease(ctx context.Context, r wire.LeaseRequest) (*wire.LeaseResponse, error) {
	p.features = r.Features
	l, err := p.filePlane.Lease(ctx, r)
	if l != nil {
		l.Payload = []byte(`{"input":["uploads/x","uploads/y","uploads/z"],"params":{"dpi":60}}`)
	}
	return l, err
}

func (p *inputsPlane) Input(_ context.Context, _ gateway.LeaseOf, number int, from int64) (io.ReadCloser, string, error) {
	p.asked = append(p.asked, fmt.Sprintf("%d from %d", number, from))
	if number == p.gone {
		return nil, "", &gateway.Error{Status: 404, Code: wire.InputNotFound, Message: "gone"}
	}
	text := p.inputs[number-1]
	sum := hexSum(text)
	if number == p.wrong {
		p.wrong, sum = 0, hexSum("else")
	}
	rest := text[from:]
	r := io.Reader(strings.NewReader(rest))
	if len(rest) > p.breaks {
		r = io.MultiReader(strings.NewReader(rest[:p.breaks]), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return io.NopCloser(r), sum, nil
}

func TestK05AnAgentFetchesSeveralInputsAndGoesOnWhereItWas(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*inputsPlane)
		asked  []string
		code   string // of the failure; empty for a result
		says   string // in the failure, or in the log
	}{
		{"connections that hold", func(*inputsPlane) {}, []string{"1 from 0", "2 from 0", "3 from 0"}, "", ""},
		{"connections that break", func(p *inputsPlane) { p.breaks = 60 }, []string{"1 from 0", "1 from 60", "2 from 0", "3 from 0", "3 from 60", "3 from 120"}, "", ""},
		{"one that is gone", func(p *inputsPlane) { p.gone = 2 }, []string{"1 from 0", "2 from 0"}, "INPUT_MISSING", "does not have input 2 of 3"},
		{"one that has arrived as something else", func(p *inputsPlane) { p.wrong = 3 }, []string{"1 from 0", "2 from 0", "3 from 0"}, "WORKER_UNAVAILABLE", "input 3 of 3 has arrived as something else"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				p := &inputsPlane{filePlane: filePlane{breaks: 1 << 20}, inputs: []string{numbers(100), "", numbers(150)}}
				tt.change(p)
				none := jobs.Kind("")
				r.kind, r.kinds = &none, []jobs.Kind{"thumbnail"}
				a := r.agent(p)
				a.EncodeKind = func(_ jobs.Kind, result []byte) (wire.ResultRequest, error) {
					return wire.ResultRequest{Result: result}, nil
				}
				var got []string
				r.handler = func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
					if job.Payload != `{"dpi":60}` || job.Input != "" || !slices.IsSorted(job.Inputs) {
						t.Errorf("the job is %+v", job)
					}
					for _, object := range job.Inputs {
						in, err := r.store.Open(ctx, object)
						if err != nil {
							return jobs.Result{}, err
						}
						text, err := io.ReadAll(in)
						if err = errors.Join(err, in.Close()); err != nil {
							return jobs.Result{}, err
						}
						got = append(got, string(text))
					}
					return r.put(ctx, job)
				}
				r.workWith(a, "thumbnail", func() { time.Sleep(10 * time.Minute) })
				if !slices.Contains(p.features, wire.FeatureInputs) {
					t.Errorf("it has asked for a job with the features %q", p.features)
				}
				if !slices.Equal(p.asked, tt.asked) {
					t.Errorf("asked for %q, want %q", p.asked, tt.asked)
				}
				switch {
				case tt.code != "":
					if p.failed == nil || p.failed.ErrorCode != tt.code || !strings.Contains(p.failed.ErrorMessage+r.log.String(), tt.says) || p.result != nil || got != nil {
						t.Errorf("failed %+v, result %+v, ran with %q; want %s: %s\n%s", p.failed, p.result, got, tt.code, tt.says, r.log)
					}
				case p.result == nil || !slices.Equal(got, p.inputs):
					t.Errorf("ran with %q; result %+v, failure %+v\n%s", got, p.result, p.failed, r.log)
				}
			})
		})
	}
}

func TestK05AnAgentOfKindZPEAloneAsksAsItAlwaysDid(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		p := &inputsPlane{}
		p.offered = true
		a := r.agent(p)
		r.workWith(a, "zpe", func() { time.Sleep(time.Minute) })
		if want := []string{wire.FeatureRenew, wire.FeatureCancel}; !slices.Equal(p.features, want) {
			t.Errorf("asked with the features %q, want %q", p.features, want)
		}
	})
}
