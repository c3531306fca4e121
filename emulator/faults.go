package emulator

import (
	"context"
	"fmt"
	"path"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// faults are failures that a test injects. The zero value has none.
type faults struct {
	set atomic.Bool // while false, calls do not take the lock

	mu   sync.Mutex
	fail map[string][]codes.Code // the errors of the next calls of a method
	drop map[string]int          // how many replies of a method are dropped
}

// Fail makes the next n calls of an RPC fail with code, without any effect:
// Fail("Pull", 3, codes.Unavailable). It adds to what is already set, and holds
// for gRPC and REST alike. It panics when there is no such RPC.
func (s *Server) Fail(method string, n int, code codes.Code) {
	mustBeMethod(method)
	f := &s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		f.fail = make(map[string][]codes.Code)
	}
	for range n {
		f.fail[method] = append(f.fail[method], code)
	}
	f.set.Store(true)
}

// DropReplies makes the next n calls of an RPC take effect but lose their
// replies: the client sees UNAVAILABLE, as when a connection breaks. For
// StreamingPull it is the next n responses that are lost, and the stream goes
// on. It panics when there is no such RPC.
func (s *Server) DropReplies(method string, n int) {
	mustBeMethod(method)
	f := &s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drop == nil {
		f.drop = make(map[string]int)
	}
	f.drop[method] += n
	f.set.Store(true)
}

func mustBeMethod(method string) {
	for _, desc := range serviceDescs {
		for _, m := range desc.Methods {
			if m.MethodName == method {
				return
			}
		}
		for _, m := range desc.Streams {
			if m.StreamName == method {
				return
			}
		}
	}
	panic(fmt.Sprintf("emulator: no RPC %q", method))
}

// failNext returns the error the next call of method is to fail with, or nil.
func (f *faults) failNext(method string) error {
	if !f.set.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	todo := f.fail[method]
	if len(todo) == 0 {
		return nil
	}
	f.fail[method] = todo[1:]
	return status.Errorf(todo[0], "%s failed on request of a test", method)
}

// dropNext reports whether the next reply of method is dropped.
func (f *faults) dropNext(method string) bool {
	if !f.set.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drop[method] == 0 {
		return false
	}
	f.drop[method]--
	return true
}

func (f *faults) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	if err := f.failNext(method); err != nil {
		return nil, err
	}
	resp, err := handler(ctx, req)
	if f.dropNext(method) {
		return nil, status.Errorf(codes.Unavailable, "reply of %s dropped on request of a test", method)
	}
	return resp, err
}

func (f *faults) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	method := path.Base(info.FullMethod)
	if err := f.failNext(method); err != nil {
		return err
	}
	return handler(srv, lossyStream{ss, f, method})
}

// A lossyStream drops the responses that DropReplies asks for.
type lossyStream struct {
	grpc.ServerStream
	faults *faults
	method string
}

func (s lossyStream) SendMsg(m any) error {
	if s.faults.dropNext(s.method) {
		return nil
	}
	return s.ServerStream.SendMsg(m)
}
