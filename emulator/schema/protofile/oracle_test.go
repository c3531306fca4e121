package protofile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/options"
	protoparser "github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
)

// oracle returns what another compiler makes of a text. It takes the steps of
// protocompile.Compiler for one file, which imports nothing.
func oracle(source string) (*descriptorpb.FileDescriptorProto, error) {
	handler := reporter.NewHandler(nil)
	tree, err := protoparser.Parse(fileName, strings.NewReader(source), handler)
	if err != nil {
		return nil, err
	}
	parsed, err := protoparser.ResultFromAST(tree, true, handler)
	if err != nil {
		return nil, err
	}
	if len(parsed.FileDescriptorProto().GetDependency()) > 0 {
		return nil, fmt.Errorf("it imports %q", parsed.FileDescriptorProto().Dependency)
	}
	symbols := new(linker.Symbols)
	file, err := linker.Link(parsed, nil, symbols, handler)
	if err != nil {
		return nil, err
	}
	if _, err := options.InterpretOptions(file, handler); err != nil {
		return nil, err
	}
	if err := file.ValidateOptions(handler, symbols); err != nil {
		return nil, err
	}
	return file.FileDescriptorProto(), handler.Error()
}

// compare fails unless a text that is accepted is accepted by the oracle too, with the same
// descriptor. It returns whether it is accepted, and by the oracle.
func compare(tb testing.TB, source string) (ours, theirs bool) {
	tb.Helper()
	want, wantErr := oracle(source)
	_, err := Parse(source)
	if err != nil {
		return false, wantErr == nil
	}
	if wantErr != nil {
		tb.Errorf("accepted what the oracle refuses: %v\n%s", wantErr, source)
		return true, false
	}
	got, _, err := parse(source)
	if err != nil {
		tb.Fatal(err)
	}
	if !proto.Equal(got, want) {
		tb.Errorf("%s\n%s", source, cmp.Diff(want, got, protocmp.Transform()))
	}
	return true, true
}
