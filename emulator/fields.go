package emulator

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// The fields that a resource may set. Any other field with a value is refused, so
// that no test relies on something this server does not do. Output fields are
// ignored, as Google does.
var (
	topicFields = fields{
		supported: []string{"name", "labels", "message_retention_duration", "schema_settings"},
		output:    []string{"state", "satisfies_pzs"},
	}
	subscriptionFields = fields{
		supported: []string{
			"name", "topic", "labels", "ack_deadline_seconds", "message_retention_duration", "retain_acked_messages",
			"enable_message_ordering", "enable_exactly_once_delivery", "filter", "dead_letter_policy", "retry_policy", "expiration_policy",
		},
		fixed: []string{"topic", "filter", "enable_message_ordering"},
		output: []string{
			"state", "detached", "topic_message_retention_duration", "analytics_hub_subscription_info",
		},
	}
	snapshotFields = fields{
		supported: []string{"name", "topic", "labels", "expire_time"},
		fixed:     []string{"topic"},
	}
)

type fields struct {
	supported []string
	fixed     []string // of supported: no update changes them, nor the name
	output    []string
}

// refuse returns UNIMPLEMENTED, naming the fields, when m sets any that is not
// supported.
func (f fields) refuse(m proto.Message) error {
	var unsupported []string
	m.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		if !slices.Contains(f.supported, name) && !slices.Contains(f.output, name) && !isNoop(fd, v) {
			unsupported = append(unsupported, name)
		}
		return true
	})
	if len(unsupported) == 0 {
		return nil
	}
	slices.Sort(unsupported)
	return errUnimplemented(m, strings.Join(unsupported, ", "))
}

func errUnimplemented(m proto.Message, field string) error {
	return status.Errorf(codes.Unimplemented, "%s.%s is not implemented by this server",
		m.ProtoReflect().Descriptor().Name(), field)
}

// isNoop reports whether a field is an empty push configuration, which means pull.
func isNoop(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	return fd.Name() == "push_config" && proto.Size(v.Message().Interface()) == 0
}

// maskPaths returns the fields an update is to change, by paths of dotted names.
// Google wants a mask that is not empty, names fields of the message, and does not
// hold the name.
func (f fields) maskPaths(mask *fieldmaskpb.FieldMask, m proto.Message) ([]string, error) {
	if len(mask.GetPaths()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "The update_mask in the request must be set and not empty.")
	}
	r := m.ProtoReflect()
	for _, path := range mask.GetPaths() {
		top, _, _ := strings.Cut(path, ".")
		switch fd := r.Descriptor().Fields().ByName(protoreflect.Name(top)); {
		case fd == nil || !(&fieldmaskpb.FieldMask{Paths: []string{path}}).IsValid(m):
			return nil, status.Errorf(codes.InvalidArgument, "update_mask: %s has no field %s", r.Descriptor().Name(), clip(path))
		case top == "name" || slices.Contains(f.fixed, top) || slices.Contains(f.output, top):
			return nil, status.Errorf(codes.InvalidArgument, "update_mask: %s cannot be changed", clip(path))
		case !slices.Contains(f.supported, top) && r.Has(fd) && !isNoop(fd, r.Get(fd)):
			return nil, errUnimplemented(m, top)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(mask.GetPaths()))), nil
}

// copyFields makes the fields of to at the given paths what they are in from.
func copyFields(to, from proto.Message, paths []string) {
	for _, path := range paths {
		copyField(to.ProtoReflect(), from.ProtoReflect(), path)
	}
}

func copyField(to, from protoreflect.Message, path string) {
	name, rest, nested := strings.Cut(path, ".")
	fd := to.Descriptor().Fields().ByName(protoreflect.Name(name))
	switch {
	case nested && (from.Has(fd) || to.Has(fd)):
		copyField(to.Mutable(fd).Message(), from.Get(fd).Message(), rest)
	case from.Has(fd):
		to.Set(fd, from.Get(fd))
	default:
		to.Clear(fd)
	}
}

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return status.Errorf(codes.InvalidArgument, "too many labels: %d, at most %d", len(labels), maxLabels)
	}
	for k, v := range labels {
		if k == "" || len(k) > 63*4 || len(v) > 63*4 { // 63 characters of up to four bytes
			return status.Errorf(codes.InvalidArgument, "invalid label %s: keys have 1 to 63 characters, values up to 63", clip(k))
		}
	}
	return nil
}
