// Package protofile reads the text of a .proto file that imports nothing: proto2, proto3
// and edition 2023.
//
// The text is parsed into a descriptor in one pass, by recursive descent. Names are
// resolved when all of them are known, then package protodesc builds the file and checks
// it, and last come the rules of the language that protodesc does not have. There are
// no custom options, since what they would extend is in a file to import. Message sets,
// which the library cannot read, are refused.
//
// Definitions come from clients: the time is linear in the text and in the full names of
// what is declared in it, and both are bounded.
package protofile

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Limits of a text.
const (
	maxBrackets = 32       // levels of brackets of any kind
	maxDepth    = 32       // levels of messages are fewer, as for protoc
	maxNames    = 32 << 20 // bytes of all full names, which grow with the square of the text
)

// fileName is what errors call the text.
const fileName = "schema.proto"

// A failure is an error in the text. It is thrown as a panic, and Parse returns it.
type failure struct {
	pos     int // offset in the text
	message string
}

// fail ends the reading with an error at an offset. Inlined, it would make the binary larger at
// each of its calls.
//
//go:noinline
func fail(pos int, format string, args ...any) {
	panic(failure{pos, fmt.Sprintf(format, args...)})
}

// Parse returns what a text defines. Errors begin with the place: schema.proto:line:column.
func Parse(source string) (protoreflect.FileDescriptor, error) {
	file, p, err := parse(source)
	if err != nil {
		return nil, err
	}
	built, err := protodesc.NewFile(file, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", fileName, plain(err))
	}
	return built, p.guard(func() { p.check(built) })
}

// parse returns the descriptor of a text, with all names resolved and options read.
func parse(source string) (*descriptorpb.FileDescriptorProto, *parser, error) {
	if !utf8.ValidString(source) {
		return nil, nil, errors.New("not UTF-8")
	}
	if err := checkBrackets(source); err != nil {
		return nil, nil, err
	}
	p := &parser{
		lexer:    lexer{source: source},
		file:     &descriptorpb.FileDescriptorProto{Name: new(fileName)},
		top:      &scope{},
		at:       make(map[proto.Message]int),
		named:    make(map[*descriptorpb.FieldDescriptorProto]bool),
		extended: make(map[*descriptorpb.FieldDescriptorProto]*descriptorpb.DescriptorProto),
	}
	p.offset = len(source) - len(strings.TrimPrefix(source, "\ufeff"))
	err := p.guard(func() {
		p.next()
		p.parseFile()
		p.link()
	})
	return p.file, p, err
}

// guard returns the failure that f ends with, if any.
func (p *parser) guard(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			before := p.source[:r.pos]
			line := before[strings.LastIndexByte(before, '\n')+1:]
			err = fmt.Errorf("%s:%d:%d: %s", fileName, strings.Count(before, "\n")+1, utf8.RuneCountInString(line)+1, r.message)
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// plain returns the text of an error of protodesc without its prefix, whose white space
// varies from build to build on purpose.
func plain(err error) string {
	return strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
}
