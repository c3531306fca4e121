package protofile

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

type extensionRange = descriptorpb.DescriptorProto_ExtensionRange

// A declaration is the place that a message keeps for an extension.
type declaration struct {
	extendee protoreflect.FullName
	number   int32
}

// declarations checks the extensions that a message declares.
func (c *checker) declarations(m *descriptorpb.DescriptorProto, d protoreflect.MessageDescriptor) {
	for _, r := range m.ExtensionRange {
		o := r.GetOptions()
		if len(o.GetDeclaration()) == 0 {
			continue
		}
		if o.Verification != nil && o.GetVerification() != descriptorpb.ExtensionRangeOptions_DECLARATION {
			fail(c.at[r], "extensions are declared, but verification is %s", o.GetVerification())
		}
		numbers := make(map[int32]bool)
		for _, x := range o.GetDeclaration() {
			n := x.GetNumber()
			if n < r.GetStart() || n >= r.GetEnd() || numbers[n] {
				fail(c.at[r], "the declaration of extension %s needs a number of its own in the range, and not %d", x.GetFullName(), n)
			}
			numbers[n] = true
			c.declaration(x, declaration{d.FullName(), n}, c.at[r])
		}
	}
}

// declaration checks the declaration of one extension.
func (c *checker) declaration(x *descriptorpb.ExtensionRangeOptions_Declaration, d declaration, pos int) {
	if (x.FullName == nil) != (x.Type == nil) || x.FullName == nil && !x.GetReserved() {
		fail(pos, "the declaration of an extension needs full_name and type, or reserved")
	}
	if x.FullName == nil {
		return
	}
	if !isFullName(x.GetFullName()) {
		fail(pos, "the declaration of an extension needs a full name with a dot before it, and not %q", x.GetFullName())
	}
	if _, ok := fieldTypes[x.GetType()]; !ok && !isFullName(x.GetType()) {
		fail(pos, "the declaration of extension %s needs a type, and not %q", x.GetFullName(), x.GetType())
	}
	if other, ok := c.declared[x.GetFullName()]; ok && other != d {
		fail(pos, "extension %s is declared with number %d too", x.GetFullName(), other.number)
	}
	c.declared[x.GetFullName()] = d
}

func isFullName(s string) bool {
	name, ok := strings.CutPrefix(s, ".")
	return ok && protoreflect.FullName(name).IsValid()
}

// extension checks an extension, and whether it is as it is declared.
func (c *checker) extension(f *descriptorpb.FieldDescriptorProto, d protoreflect.ExtensionDescriptor) {
	c.field(f, d)
	for _, r := range c.strictRanges(c.extended[f]) {
		if r.GetStart() <= f.GetNumber() && f.GetNumber() < r.GetEnd() {
			c.matches(f, d, r.GetOptions().GetDeclaration())
		}
	}
}

// strictRanges returns the ranges of a message that allow only extensions that are declared.
func (c *checker) strictRanges(m *descriptorpb.DescriptorProto) []*extensionRange {
	if found, ok := c.ranges[m]; ok {
		return found
	}
	found := []*extensionRange{}
	for _, r := range m.ExtensionRange {
		if o := r.GetOptions(); o != nil && (len(o.GetDeclaration()) > 0 || o.GetVerification() == descriptorpb.ExtensionRangeOptions_DECLARATION) {
			found = append(found, r)
		}
	}
	c.ranges[m] = found
	return found
}

// matches fails unless an extension is declared.
func (c *checker) matches(f *descriptorpb.FieldDescriptorProto, d protoreflect.ExtensionDescriptor, declared []*descriptorpb.ExtensionRangeOptions_Declaration) {
	for _, x := range declared {
		if x.GetNumber() != f.GetNumber() {
			continue
		}
		if x.GetReserved() || x.GetFullName() != "."+string(d.FullName()) || x.GetType() != typeName(d) ||
			x.GetRepeated() != (d.Cardinality() == protoreflect.Repeated) {
			c.fail(f, "the extension is not as it is declared")
		}
		return
	}
	c.fail(f, "the extension is not declared")
}

// typeName returns the type of a field as declarations have it.
func typeName(d protoreflect.FieldDescriptor) string {
	switch {
	case d.Message() != nil:
		return "." + string(d.Message().FullName())
	case d.Enum() != nil:
		return "." + string(d.Enum().FullName())
	default:
		return d.Kind().String()
	}
}
