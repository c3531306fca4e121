package schema

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// compatibleProto follows Google's rule: optional fields may be added and removed,
// everything else stays as it is.
func compatibleProto(a, b string) error {
	was, err := parseProto(a)
	if err != nil {
		return err
	}
	is, err := parseProto(b)
	if err != nil {
		return err
	}
	return compareMessages(was, is, make(map[[2]protoreflect.FullName]bool))
}

// compareMessages compares two message types and those of their fields. seen
// holds the pairs looked at before.
func compareMessages(was, is protoreflect.MessageDescriptor, seen map[[2]protoreflect.FullName]bool) error {
	pair := [2]protoreflect.FullName{was.FullName(), is.FullName()}
	if seen[pair] {
		return nil
	}
	seen[pair] = true
	if err := checkOptional(was, is, "removed from"); err != nil {
		return err
	}
	if err := checkOptional(is, was, "added to"); err != nil {
		return err
	}
	fields := is.Fields()
	for i := range fields.Len() {
		new := fields.Get(i)
		old := was.Fields().ByNumber(new.Number())
		if old == nil {
			continue
		}
		if describeField(old) != describeField(new) {
			return fmt.Errorf("field %d of %s was %s and is %s: fields cannot be changed",
				new.Number(), is.FullName(), describeField(old), describeField(new))
		}
		if new.Message() == nil {
			continue
		}
		if err := compareMessages(old.Message(), new.Message(), seen); err != nil {
			return err
		}
	}
	return nil
}

// checkOptional refuses fields of m that other does not have, unless they are
// optional.
func checkOptional(m, other protoreflect.MessageDescriptor, done string) error {
	fields := m.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if other.Fields().ByNumber(fd.Number()) == nil && fd.Cardinality() != protoreflect.Optional {
			return fmt.Errorf("field %s is %s and %s the definition: only optional fields can be", fd.FullName(), fd.Cardinality(), done)
		}
	}
	return nil
}

// describeField returns what must not change in a field.
func describeField(fd protoreflect.FieldDescriptor) string {
	s := fd.Cardinality().String() + " " + fd.Kind().String()
	switch {
	case fd.Message() != nil:
		s += " " + string(fd.Message().Name())
	case fd.Enum() != nil:
		s += " " + string(fd.Enum().Name())
	}
	if of := fd.ContainingOneof(); of != nil && !of.IsSynthetic() {
		s += " in oneof " + string(of.Name())
	}
	return s + " " + string(fd.Name())
}
