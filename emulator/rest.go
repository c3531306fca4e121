package emulator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// serviceDescs are the services of google.pubsub.v1 as gRPC knows them.
var serviceDescs = []*grpc.ServiceDesc{
	&pubsubpb.Publisher_ServiceDesc,
	&pubsubpb.Subscriber_ServiceDesc,
	&pubsubpb.SchemaService_ServiceDesc,
}

// A rest serves the REST form of the services: it turns an HTTP request into
// the message of a unary call and calls the same code as gRPC does.
type rest []route

// A route is one google.api.http binding.
type route struct {
	method string // of HTTP
	path   template
	body   string // "*", the name of a field, or "" for none
	call   func(ctx context.Context, decode func(any) error) (any, error)
}

// newRest reads the bindings of the services from the descriptors inside
// pubsubpb. services holds the implementation of each of serviceDescs.
func newRest(services []any, intercept grpc.UnaryServerInterceptor) rest {
	var h rest
	for i, desc := range serviceDescs {
		for _, m := range desc.Methods {
			call := func(ctx context.Context, decode func(any) error) (any, error) {
				return m.Handler(services[i], ctx, decode, intercept)
			}
			h = append(h, bindings(desc.ServiceName, m.MethodName, call)...)
		}
	}
	return h
}

// bindings returns the routes of one method. It panics when the annotations,
// which are compiled in, say something this package cannot read.
func bindings(service, method string, call func(context.Context, func(any) error) (any, error)) []route {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	if err != nil {
		panic(fmt.Sprintf("emulator: %s.%s: %v", service, method, err))
	}
	first := proto.GetExtension(d.Options(), annotations.E_Http).(*annotations.HttpRule)
	var routes []route
	for _, rule := range append([]*annotations.HttpRule{first}, first.GetAdditionalBindings()...) {
		m := rule.ProtoReflect()
		verb := m.WhichOneof(m.Descriptor().Oneofs().ByName("pattern")) // get, put, post, delete or patch
		t, err := parseTemplate(m.Get(verb).String())
		if err != nil {
			panic(fmt.Sprintf("emulator: http rule of %s.%s: %v", service, method, err))
		}
		routes = append(routes, route{method: strings.ToUpper(string(verb.Name())), path: t, body: rule.GetBody(), call: call})
	}
	return routes
}

func (h rest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := h.serve(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	// This fails only if the client has left.
	_, _ = w.Write(answer)
}

func (h rest) serve(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	route, vars := h.route(r.Method, r.URL.EscapedPath())
	if route == nil {
		return nil, status.Errorf(codes.NotFound, "no method is bound to %s %s", r.Method, clip(r.URL.Path))
	}
	query, format, err := readQuery(r.URL.RawQuery)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	resp, err := route.call(r.Context(), func(in any) error {
		if err := route.bindRequest(in.(proto.Message), vars, query, body); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return marshal(resp.(proto.Message), format)
}

// route returns the binding for a request and the values in its path. Where two
// match, the one with a verb is meant: a resource name holds no colon.
func (h rest) route(method, path string) (*route, []string) {
	var found *route
	var vars []string
	for i := range h {
		r := &h[i]
		if r.method != method {
			continue
		}
		if v, ok := r.path.match(path); ok && (found == nil || r.path.verb != "") {
			found, vars = r, v
		}
	}
	return found, vars
}

// readBody returns the request's body. Its time is limited, and its size.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	const longest = time.Minute
	conn := http.NewResponseController(w)
	// Recorders in tests have no deadlines; a real connection always has.
	_ = conn.SetReadDeadline(time.Now().Add(longest))
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, status.Errorf(codes.InvalidArgument, "Request payload size exceeds the limit: %d bytes.", maxBodyBytes)
	}
	if errors.Is(err, errInflight) {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "read body: %v", err)
	}
	_ = conn.SetReadDeadline(time.Time{}) // a pull may wait for longer
	return body, nil
}

// readAll is io.ReadAll in pieces: one growing buffer allocates four times its
// size, which counts where many clients send much and never end.
func readAll(r io.Reader) ([]byte, error) {
	const first, largest = 4 << 10, 1 << 20
	var pieces [][]byte
	for size := first; ; size = min(2*size, largest) {
		piece := make([]byte, 0, size)
		for len(piece) < size {
			n, err := r.Read(piece[len(piece):size])
			piece = piece[:len(piece)+n]
			if errors.Is(err, io.EOF) {
				return bytes.Join(append(pieces, piece), nil), nil
			}
			if err != nil {
				return nil, err
			}
		}
		pieces = append(pieces, piece)
	}
}

// readQuery parses a query and takes the parameters out that every Google API
// has: the form of the answer, and those that would change nothing here.
func readQuery(raw string) (url.Values, protojson.MarshalOptions, error) {
	var f protojson.MarshalOptions
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, f, fmt.Errorf("invalid query: %w", err)
	}
	for _, name := range []string{"alt", "$alt"} {
		kind, options, _ := strings.Cut(query.Get(name), ";")
		if kind != "" && kind != "json" {
			return nil, f, fmt.Errorf("%s=%s is not supported, only json", name, clip(kind))
		}
		// The REST transports of Google's own clients ask for this.
		f.UseEnumNumbers = f.UseEnumNumbers || options == "enum-encoding=int"
		query.Del(name)
	}
	for _, name := range []string{"key", "access_token", "quotaUser", "prettyPrint", "$prettyPrint"} {
		query.Del(name)
	}
	return query, f, nil
}

func marshal(m proto.Message, format protojson.MarshalOptions) ([]byte, error) {
	b, err := format.Marshal(m)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "marshal answer: %v", err)
	}
	// protojson varies its white space from build to build on purpose.
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return nil, status.Errorf(codes.Internal, "indent answer: %v", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// writeError answers with err in the form of all Google APIs.
func writeError(w http.ResponseWriter, err error) {
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	type problem struct {
		Code    int               `json:"code"`
		Message string            `json:"message"`
		Status  string            `json:"status"`
		Details []json.RawMessage `json:"details,omitempty"`
	}
	httpCode := cmp.Or(httpStatus[st.Code()], http.StatusInternalServerError)
	p := problem{Code: httpCode, Message: st.Message(), Status: code.Code(st.Code()).String()}
	for _, d := range st.Proto().GetDetails() {
		if detail, err := protojson.Marshal(d); err == nil { // of a type that is compiled in
			p.Details = append(p.Details, detail)
		}
	}
	body, err := json.MarshalIndent(map[string]problem{"error": p}, "", "  ")
	if err != nil {
		panic(err) // what was marshaled before and two strings and a number always marshal
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(httpCode)
	_, _ = w.Write(append(body, '\n'))
}

// httpStatus is the mapping in google/rpc/code.proto, but for what is status 500.
var httpStatus = map[codes.Code]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           499, // client closed request
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.Aborted:            http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.Unauthenticated:    http.StatusUnauthorized,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Unavailable:        http.StatusServiceUnavailable,
}
