package redact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler returns a handler that passes on to h what is logged without its secrets:
// the message and all values, those in groups too. Keys are ours and stay.
func Handler(h slog.Handler) slog.Handler { return handler{h} }

type handler struct{ to slog.Handler }

func (h handler) Enabled(ctx context.Context, l slog.Level) bool { return h.to.Enabled(ctx, l) }

func (h handler) WithGroup(name string) slog.Handler { return handler{h.to.WithGroup(name)} }

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.to.WithAttrs(redactAttrs(attrs))}
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(redactAttr(a))
		return true
	})
	return h.to.Handle(ctx, clean)
}

func redactAttrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		clean = append(clean, redactAttr(a))
	}
	return clean
}

func redactAttr(a slog.Attr) slog.Attr { return slog.Attr{Key: a.Key, Value: redactValue(a.Value)} }

// redactValue returns a value without its secrets. An error becomes its text, and so
// does a value of a type unknown to slog if the text holds secrets: what is checked
// must be what is written.
func redactValue(v slog.Value) slog.Value {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.StringValue(Text(v.String()))
	case slog.KindGroup:
		return slog.GroupValue(redactAttrs(v.Group())...)
	case slog.KindAny:
		return redactAny(v)
	case slog.KindBool, slog.KindDuration, slog.KindFloat64, slog.KindInt64, slog.KindTime, slog.KindUint64, slog.KindLogValuer:
	}
	return v
}

func redactAny(v slog.Value) slog.Value {
	switch x := v.Any().(type) {
	case nil:
		return v
	case error:
		return slog.StringValue(Text(fmt.Sprint(x))) // which outlives an Error that panics
	}
	text := fmt.Sprintf("%+v", v.Any())
	encoded, err := json.Marshal(v.Any())
	if clean := Text(text); clean != text || err != nil || !bytes.Equal(JSON(encoded), encoded) {
		return slog.StringValue(clean)
	}
	return v
}
