package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// FuzzK01Parse looks for texts that are read as kinds and are none: what is accepted is TOML for
// the whole library, too, and within all limits; what is not has a place and a key.
func FuzzK01Parse(f *testing.F) {
	f.Add([]byte(thumbnail))
	f.Add([]byte(allTypes))
	f.Add([]byte("k = {command = ['x', '{params.p}'], params = {p = {type = 'string'}}}\n"))
	f.Add([]byte("[a]\nparams.p.type = 'string'\n[a.params.q]\ntype = 'number'\n[a.params]\nr.type = 'integer'\n"))
	for _, tt := range wrongFiles {
		if len(tt.text) < 1000 {
			f.Add([]byte(tt.text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := Parse("kinds.toml", data)
		if err != nil {
			e := (*FileError)(nil)
			if !errors.As(err, &e) || len(e.Mistakes) == 0 || set != nil {
				t.Fatalf("got %v, %v", set, err)
			}
			for i, m := range e.Mistakes {
				before := i > 0 && (m.Line < e.Mistakes[i-1].Line || m.Line == e.Mistakes[i-1].Line && m.Column < e.Mistakes[i-1].Column)
				if m.Line < 1 || m.Line > bytes.Count(data, []byte("\n"))+1 || m.Column < 1 || before || !strings.HasPrefix(m.Text, m.Key) || strings.ContainsAny(m.Text, "\n\x1b") {
					t.Fatalf("got %#v", m)
				}
			}
			return
		}
		var whole map[string]any
		if err := toml.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &whole); err != nil || len(whole) != len(set.Kinds) {
			t.Fatalf("accepted %d kinds of %d: %v", len(set.Kinds), len(whole), err)
		}
		for _, k := range set.Kinds {
			checkKind(t, set, k)
		}
	})
}

func checkKind(t *testing.T, set *Set, k *Kind) {
	t.Helper()
	if set.Get(k.Name) != k || !nameForm().MatchString(string(k.Name)) || reserved[string(k.Name)] != "" || len(k.Command) == 0 || k.Command[0] == "" ||
		k.Retries < 0 || k.Retries > maxRetries || k.Slots < 0 || k.Slots > maxSlots || k.GPUs < 0 || k.GPUs > maxGPUs || k.MaxFiles < 1 || k.MaxFiles > maxFiles ||
		k.Timeout < 0 || k.Timeout > maxTimeout || k.CPU < 0 || k.CPU > maxCPU || k.Memory < 0 || k.Memory > maxSize || k.Disk < minSize || k.Disk > maxSize ||
		k.MaxInput < 1 || k.MaxInput > maxSize || k.Backoff < minBackoff || k.BackoffMax < k.Backoff || k.BackoffMax > maxBackoff || k.Checkpoints < 0 || len(k.Params) > maxParams {
		t.Fatalf("got %+v", k)
	}
	compileSchema(t, k)
	raw := json.RawMessage("{}")
	for _, p := range k.Params {
		if p.Required {
			return // defaults alone are not enough
		}
	}
	normalized, err := k.CheckParams(raw)
	if err != nil {
		if strings.Contains(err.Error(), "with their defaults") {
			return
		}
		t.Fatalf("the defaults of %+v: %v", k, err)
	}
	v := places
	v.Param = normalized
	argv, err := k.Argv(v)
	if err != nil && !strings.Contains(err.Error(), "are possible") || err == nil && (len(argv) > len(k.Command) || argv[0] != k.Command[0]) {
		t.Fatalf("%q becomes %q, %v", k.Command, argv, err)
	}
}

func FuzzK03CheckParams(f *testing.F) {
	for _, s := range []string{
		"", "null", "{}", `{"mode":"fast"}`, `{"title":"a b","dpi":3e2,"scale":-0.5,"grey":true,"mode":"best"}`, `{"dpi":1,"dpi":2}`, `[]`, `{"title":"\ud800"}`, `{"title":"-rf"}`,
		`{"scale":-0.0,"mode":"fast"}`, `{"scale":1e300,"mode":"fast"}`, `{"scale":5e-324,"mode":"fast"}`, `{"scale":123456789012345678901,"mode":"fast"}`, `{"dpi":{"a":[[]]}}`, "{\"title\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	set, err := Parse("kinds.toml", []byte(allTypes))
	if err != nil {
		f.Fatal(err)
	}
	k := set.Get("k")
	schema := compileSchema(f, k)
	f.Fuzz(func(t *testing.T, raw []byte) {
		normalized, err := k.CheckParams(raw)
		if err != nil {
			wrong := (*ParamsError)(nil)
			if !errors.As(err, &wrong) || len(wrong.Errors) == 0 || len(wrong.Errors) > maxParamErrors || normalized != nil || len(err.Error()) > 10*(maxNumber+500) {
				t.Fatalf("got %s, %v", normalized, err)
			}
			return
		}
		again, err := k.CheckParams(normalized)
		if err != nil || !bytes.Equal(normalized, again) || !validates(t, schema, normalized) {
			t.Fatalf("%q becomes %q and then %q, %v", raw, normalized, again, err)
		}
		v := places
		v.Param = normalized
		if argv, err := k.Argv(v); err != nil || len(argv) != 2 || strings.HasPrefix(argv[1], "-") {
			t.Fatalf("%s becomes %q, %v", normalized, argv, err)
		}
	})
}
