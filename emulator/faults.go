package emulator

import (
	"context"
	"fmt"
	"path"
	"slices"
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
	todo map[fault][]codes.Code
}

// A fault is what fails: the next calls of a method, or their replies alone.
type fault struct {
	method string
	reply  bool
}

// Fail makes the next n calls of an RPC fail with code, without any effect:
// Fail("Pull", 3, codes.Unavailable). It adds to what is already set, and holds
// for gRPC and REST alike. It panics when there is no such RPC.
func (s *Server) Fail(method string, n int, code codes.Code) {
	s.faults.add(fault{method, false}, n, code)
}

// DropReplies makes the next n calls of an RPC take effect but lose their
// replies: the client sees UNAVAILABLE, as when a connection breaks. For
// StreamingPull it is the next n responses that are lost, and the stream goes
// on. It panics when there is no such RPC.
func (s *Server) DropReplies(method string, n int) {
	s.faults.add(fault{method, true}, n, codes.Unavailable)
}

func (f *faults) add(what fault, n int, code codes.Code) {
	if !slices.ContainsFunc(serviceDescs, func(desc *grpc.ServiceDesc) bool {
		return slices.ContainsFunc(desc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == what.method }) ||
			slices.ContainsFunc(desc.Streams, func(m grpc.StreamDesc) bool { return m.StreamName == what.method })
	}) {
		panic(fmt.Sprintf("emulator: no RPC %q", what.method))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.todo == nil {
		f.todo = make(map[fault][]codes.Code)
	}
	f.todo[what] = append(f.todo[what], slices.Repeat([]codes.Code{code}, n)...)
	f.set.Store(true)
}

// next returns how a call or its reply is to fail, or OK.
func (f *faults) next(method string, reply bool) codes.Code {
	if !f.set.Load() {
		return codes.OK
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	what := fault{method, reply}
	todo := f.todo[what]
	if len(todo) == 0 {
		return codes.OK
	}
	f.todo[what] = todo[1:]
	return todo[0]
}

// failNext returns the error the next call of method is to fail with, or nil.
func (f *faults) failNext(method string) error {
	if code := f.next(method, false); code != codes.OK {
		return status.Errorf(code, "%s failed on request of a test", method)
	}
	return nil
}

func (f *faults) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	if err := f.failNext(method); err != nil {
		return nil, err
	}
	resp, err := handler(ctx, req)
	if f.next(method, true) != codes.OK {
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
	if s.faults.next(s.method, true) != codes.OK {
		return nil
	}
	return s.ServerStream.SendMsg(m)
}
