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
func Handler(h slog.Handler) slog.Handler { return HandlerWith(h, Text) }

// HandlerWith is [Handler] for other secrets: text returns a text without them.
func HandlerWith(h slog.Handler, text func(string) string) slog.Handler { return handler{h, text} }

type handler struct {
	to   slog.Handler
	text func(string) string
}

func (h handler) Enabled(ctx context.Context, l slog.Level) bool { return h.to.Enabled(ctx, l) }

func (h handler) WithGroup(name string) slog.Handler { return handler{h.to.WithGroup(name), h.text} }

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.to.WithAttrs(h.attrs(attrs)), h.text}
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.to.Handle(ctx, clean)
}

func (h handler) attrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		clean = append(clean, h.attr(a))
	}
	return clean
}

func (h handler) attr(a slog.Attr) slog.Attr { return slog.Attr{Key: a.Key, Value: h.value(a.Value)} }

// value returns a value without its secrets. An error becomes its text, and so
// does a value of a type unknown to slog if the text holds secrets: what is checked
// must be what is written.
func (h handler) value(v slog.Value) slog.Value {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.StringValue(h.text(v.String()))
	case slog.KindGroup:
		return slog.GroupValue(h.attrs(v.Group())...)
	case slog.KindAny:
		return h.any(v)
	case slog.KindBool, slog.KindDuration, slog.KindFloat64, slog.KindInt64, slog.KindTime, slog.KindUint64, slog.KindLogValuer:
	}
	return v
}

func (h handler) any(v slog.Value) slog.Value {
	switch x := v.Any().(type) {
	case nil:
		return v
	case error:
		return slog.StringValue(h.text(fmt.Sprint(x))) // which outlives an Error that panics
	}
	text := fmt.Sprintf("%+v", v.Any())
	encoded, err := json.Marshal(v.Any())
	if clean := h.text(text); clean != text || err != nil || !bytes.Equal(JSON(encoded), encoded) {
		return slog.StringValue(clean)
	}
	return v
}
