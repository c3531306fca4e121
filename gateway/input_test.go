package gateway_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// filePlane has one job of kind thumbnail with an input, and takes its artifacts. Each of its
// connections breaks after some bytes.
type filePlane struct {
	gateway.ControlPlane
	input    string
	breaks   int // after so many bytes of an input
	asked    []int64
	missing  bool
	mismatch int // so many times an artifact arrives as something else
	offset   int64
	got      strings.Builder
	offered  bool
	sending  func() // called with each part of an artifact
	result   *wire.ResultRequest
	failed   *wire.FailedRequest

	checkpoint   string
	noCheckpoint string // the code of a gateway without checkpoints
}

func (p *filePlane) Lease(ctx context.Context, _ wire.LeaseRequest) (*wire.LeaseResponse, error) {
	if p.offered {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	p.offered = true
	return &wire.LeaseResponse{JobID: "j1", Kind: "thumbnail", LeaseID: "l1", LeaseTTLSeconds: 600, Payload: []byte(`{"params":{"dpi":60},"input":"uploads/x"}`)}, nil
}

func (p *filePlane) Heartbeat(ctx context.Context, _ string, r wire.HeartbeatRequest) (wire.HeartbeatResponse, error) {
	if r.WaitSeconds > 0 {
		<-ctx.Done()
		return wire.HeartbeatResponse{}, context.Cause(ctx)
	}
	return wire.HeartbeatResponse{LeaseID: r.LeaseID, LeaseTTLSeconds: 600}, nil
}

func (p *filePlane) Result(_ context.Context, _ string, r wire.ResultRequest) (wire.ReportResponse, error) {
	p.result = &r
	return wire.ReportResponse{OK: true}, nil
}

func (p *filePlane) Failed(_ context.Context, _ string, r wire.FailedRequest) (wire.FailedResponse, error) {
	p.failed = &r
	return wire.FailedResponse{OK: true}, nil
}

func (p *filePlane) Input(_ context.Context, l gateway.LeaseOf, number int, from int64) (io.ReadCloser, string, error) {
	if number != 0 || l.Job != "j1" || l.ID != "l1" || l.Kind != "thumbnail" {
		return nil, "", errors.New("another lease")
	}
	p.asked = append(p.asked, from)
	if p.missing {
		return nil, "", &gateway.Error{Status: 404, Code: wire.InputNotFound, Message: "gone"}
	}
	if len(p.asked) == 2 {
		return nil, "", jobs.ErrUnavailable
	}
	rest := p.input[from:]
	r := io.Reader(strings.NewReader(rest))
	if len(rest) > p.breaks {
		r = io.MultiReader(strings.NewReader(rest[:p.breaks]), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return io.NopCloser(r), hexSum(p.input), nil
}

func (p *filePlane) Uploaded(context.Context, gateway.Upload) (wire.UploadResponse, error) {
	return wire.UploadResponse{Offset: p.offset}, nil
}

func (p *filePlane) Upload(_ context.Context, u gateway.Upload, from int64, part []byte) (wire.UploadResponse, error) {
	p.sending()
	if from != p.offset {
		return wire.UploadResponse{}, &gateway.Error{Status: 409, Code: wire.OffsetMismatch, Message: "elsewhere"}
	}
	p.got.Write(part)
	p.offset += int64(len(part))
	if p.offset < u.Size {
		return wire.UploadResponse{Offset: p.offset}, nil
	}
	if p.mismatch > 0 {
		p.mismatch--
		p.offset = 0
		p.got.Reset()
		return wire.UploadResponse{}, &gateway.Error{Status: 422, Code: wire.DigestMismatch, Message: "something else"}
	}
	return wire.UploadResponse{Offset: p.offset, Complete: true}, nil
}

// numbers returns a text of so many bytes, no two parts of which are the same.
func numbers(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%d ", i)
	}
	return b.String()[:size]
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestK17InputsAndArtifactsGoOnAfterTrouble(t *testing.T) {
	tests := []struct {
		name   string
		change func(p *filePlane)
		code   string // of the failure; empty for a result
	}{
		{"connections that break", func(p *filePlane) { p.breaks = 30_000 }, ""},
		{"an artifact that arrives as something else twice", func(p *filePlane) { p.mismatch = 2 }, ""},
		{"an artifact that always arrives as something else", func(p *filePlane) { p.mismatch = 1000 }, "RESULT_INVALID"},
		{"an artifact half of which has arrived before", func(p *filePlane) {
			p.offset = 50_000
			p.got.WriteString(p.input[:50_000])
		}, ""},
		{"an input that is gone", func(p *filePlane) { p.missing = true }, "INPUT_MISSING"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				p := &filePlane{input: numbers(100_000), breaks: 1 << 20}
				tt.change(p)
				none := jobs.Kind("")
				r.kind, r.kinds = &none, []jobs.Kind{"thumbnail"}
				a := r.agent(p)
				p.sending = func() { // which may take long, so the result is safe by then
					if entries := fmt.Sprint(r.entries()); !strings.Contains(entries, `"state":"result"`) {
						t.Errorf("while an artifact is sent, there is on disk %s", entries)
					}
				}
				a.EncodeKind = func(kind jobs.Kind, result []byte) (wire.ResultRequest, error) {
					return wire.ResultRequest{Result: result, Artifacts: []wire.Artifact{{Name: "copy", Size: int64(len(p.input)), SHA256: hexSum(p.input)}}}, nil
				}
				r.handler = func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
					if job.Payload != `{"dpi":60}` || job.Kind != "thumbnail" {
						t.Errorf("the job is %+v", job)
					}
					in, err := r.store.Open(ctx, job.Input)
					if err != nil {
						return jobs.Result{}, err
					}
					defer in.Close()
					if err := r.store.Put(ctx, gateway.ArtifactObject(job.ID, "copy"), in); err != nil {
						return jobs.Result{}, err
					}
					return r.put(ctx, job)
				}
				r.workWith(a, "thumbnail", func() { time.Sleep(10 * time.Minute) })
				switch {
				case tt.code != "":
					if p.failed == nil || p.failed.ErrorCode != tt.code || p.result != nil {
						t.Errorf("failed %+v, result %+v; want %s\n%s", p.failed, p.result, tt.code, r.log)
					}
				case p.result == nil || p.got.String() != p.input || p.result.Kind != "thumbnail":
					t.Errorf("the artifact has %d bytes, result %+v, failure %+v\n%s", p.got.Len(), p.result, p.failed, r.log)
				}
				if tt.code == "" && p.breaks < len(p.input) && len(p.asked) < 4 {
					t.Errorf("the input was asked for at %v", p.asked)
				}
			})
		})
	}
}

func (p *filePlane) Checkpoint(_ context.Context, l gateway.LeaseOf, from int64) (io.ReadCloser, string, error) {
	if l.Job != "j1" || l.ID != "l1" || l.Kind != "thumbnail" {
		return nil, "", errors.New("another lease")
	}
	p.asked = append(p.asked, from)
	if p.noCheckpoint != "" || p.checkpoint == "" {
		return nil, "", &gateway.Error{Status: 404, Code: wire.Code(cmp.Or(p.noCheckpoint, string(wire.CheckpointNotFound))), Message: "none"}
	}
	rest := p.checkpoint[from:]
	r := io.Reader(strings.NewReader(rest))
	if len(rest) > p.breaks {
		r = io.MultiReader(strings.NewReader(rest[:p.breaks]), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return io.NopCloser(r), hexSum(p.checkpoint), nil
}

func (p *filePlane) PutCheckpoint(_ context.Context, l gateway.LeaseOf, a wire.Artifact, content io.Reader) error {
	if p.noCheckpoint != "" {
		return &gateway.Error{Status: 404, Code: wire.Code(p.noCheckpoint), Message: "none"}
	}
	text, err := io.ReadAll(content)
	if l.Job != "j1" || l.ID != "l1" || l.Kind != "thumbnail" || int64(len(text)) != a.Size || hexSum(string(text)) != a.SHA256 {
		return errors.New("another lease, or another content")
	}
	p.checkpoint = string(text)
	return err
}
