package kinds

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var places = Values{
	Input: []string{"/w/in/a b.pdf"}, Output: "/w/out", Work: "/w", Checkpoint: "/c", Params: "/w/params.json", JobID: "job-1", Attempt: 2,
}

// argvOf returns the arguments of a command without its program.
func argvOf(t *testing.T, command, params string, raw string, v Values) ([]string, error) {
	t.Helper()
	k := parse(t, "[k]\ncommand = [\"prog\", "+command+"]\n"+params+"\n").Get("k")
	normalized, err := k.CheckParams(json.RawMessage(raw))
	if err != nil {
		return nil, err
	}
	v.Param = normalized
	argv, err := k.Argv(v)
	if err != nil {
		return nil, err
	}
	return argv[1:], nil
}

func TestK02AValueStaysOneArgument(t *testing.T) {
	const text = `params.p = {type = "string", default = "x y"}`
	for _, tt := range []struct {
		name, command, params, raw string
		want                       []string
	}{
		{
			"each placeholder has its value", `"{input}", "{output}/page", "{work}", "{checkpoint}", "{params}", "{job_id}", "{attempt}"`, "", "",
			[]string{"/w/in/a b.pdf", "/w/out/page", "/w", "/c", "/w/params.json", "job-1", "2"},
		},
		{"a blank splits nothing", `"{params.p}"`, text, "", []string{"x y"}},
		{"a value within an argument", `"a{params.p}b{params.p}"`, text, "", []string{"ax ybx y"}},
		{"what a shell would run is text", `"{params.p}"`, text, `{"p":"$(touch /tmp/x); rm *|'\"\\\n\t"}`, []string{"$(touch /tmp/x); rm *|'\"\\\n\t"}},
		{"an empty value is an argument", `"{params.p}"`, text, `{"p":""}`, []string{""}},
		{"a value with placeholders is not filled again", `"{params.p}"`, text, `{"p":"{input}{{}}{params.p}"}`, []string{"{input}{{}}{params.p}"}},
		{"braces", `"{{a}}", "{{{params.p}}}", "{{", "}}}}"`, text, "", []string{"{a}", "{x y}", "{", "}}"}},
		{"an empty argument", `"", "a"`, "", "", []string{"", "a"}},
		{
			"numbers and truth are as in JSON", `"{params.i}", "{params.n}", "{params.b}"`, `params = {i = {type = "integer"}, n = {type = "number"}, b = {type = "boolean"}}`,
			`{"i":1e3,"n":0.25,"b":false}`,
			[]string{"1000", "0.25", "false"},
		},
		{"a large number has no exponent that programs do not know", `"{params.n}"`, `params.n = {type = "number"}`, `{"n":1234567.5}`, []string{"1234567.5"}},
		{"a negative number within an argument", `"--at={params.i}"`, `params.i = {type = "integer"}`, `{"i":-5}`, []string{"--at=-5"}},
		{"a parameter without a value takes its argument along", `"a", "--p={params.p}", "{params.p}", "b"`, `params.p = {type = "string"}`, "", []string{"a", "b"}},
		{"a script of the file with values behind it", `"-c", "echo \"$1\" >{output}/x", "sh", "{params.p}"`, text, "", []string{"-c", `echo "$1" >/w/out/x`, "sh", "x y"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := argvOf(t, tt.command, tt.params, tt.raw, places)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestK02InputsAreArgumentsOfTheirOwn(t *testing.T) {
	for _, tt := range []struct {
		name, command string
		input, want   []string
		err           string
	}{
		{"one", `"{input}", "in={input}"`, []string{"/a"}, []string{"/a", "in=/a"}, ""},
		{"several", `"-o", "{input}", "end"`, []string{"/a", "/b c", "/d"}, []string{"-o", "/a", "/b c", "/d", "end"}, ""},
		{"several within an argument", `"in={input}"`, []string{"/a", "/b"}, nil, `command of k: "in={input}" is for one input, and the job has 2`},
		{"none", `"{input}"`, nil, nil, `command of k: "{input}" is for one input, and the job has 0`},
		{"none that is needed", `"x"`, nil, []string{"x"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := argvOf(t, tt.command, "", "", Values{Input: tt.input})
			if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("got %q, %v, want %q, %s", got, err, tt.want, tt.err)
			}
			k := parse(t, "[k]\ncommand = [\"prog\", "+tt.command+"]\n").Get("k")
			if k.NeedsInput() != strings.Contains(tt.command, "{input}") {
				t.Errorf("needs input: %t", k.NeedsInput())
			}
		})
	}
}

func TestK02WhatBeginsWithADashIsRefused(t *testing.T) {
	const (
		text   = `params.p = {type = "string"}`
		number = `params.p = {type = "number"}`
	)
	for _, tt := range []struct{ name, command, params, raw, err string }{
		{"a string", `"{params.p}"`, text, `{"p":"-rf"}`, `params.p is "-rf": it must not begin with -`},
		{"a string within an argument", `"--name={params.p}"`, text, `{"p":"-rf"}`, `params.p is "-rf": it must not begin with -`},
		{"a string that only {params} holds", `"{params}"`, text, `{"p":"-"}`, `params.p is "-": it must not begin with -`},
		{"a string of a kind that allows it", `"{params.p}"`, text + "\nallow_dash = true", `{"p":"-rf"}`, ""},
		{"a dash inside", `"{params.p}"`, text, `{"p":"a-rf"}`, ""},
		{"a negative number", `"{params.p}"`, number, `{"p":-0.5}`, "params.p is -0.5: it must not be negative, because it begins an argument"},
		{"a negative number behind another parameter, which may be empty", `"{params.q}{params.p}"`, number + "\nparams.q.type = 'string'", `{"p":-1}`, "params.p is -1: it must not be negative, because it begins an argument"},
		{"a negative number of a kind that allows it", `"{params.p}"`, number + "\nallow_dash = true", `{"p":-1}`, ""},
		{"a negative number behind a text", `"x={params.p}"`, number, `{"p":-1}`, ""},
		{"a negative number behind a path", `"{output}{params.p}"`, number, `{"p":-1}`, ""},
		{"a negative zero", `"{params.p}"`, number, `{"p":-0.0}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := argvOf(t, tt.command, tt.params, tt.raw, places)
			if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("got %q, %v, want %s", got, err, tt.err)
			}
			if tt.err != "" || strings.Contains(tt.params, "allow_dash") {
				return
			}
			for _, arg := range got {
				if strings.HasPrefix(arg, "-") {
					t.Errorf("%q begins with -", arg)
				}
			}
		})
	}
}

func TestK02AScriptOfAnInterpreterHoldsNoValues(t *testing.T) {
	for command, script := range map[string]bool{
		`"sh", "-c", "{params.p}"`:                            true,
		`"/bin/bash", "-o", "pipefail", "-euc", "{params.p}"`: true,
		`"bash", "-ce", "--", "{params.p}"`:                   true,
		`"env", "-i", "dash", "-c", "x {params.p}"`:           true,
		`"sh", "-c", "true {output}", "sh", "{params.p}"`:     false,
		`"sh", "run.sh", "-c", "{params.p}"`:                  false,
		`"python3", "-c", "{params.p}"`:                       true,
		`"python3.12", "-cprint({params.p})"`:                 true,
		`"python3", "-m", "calc", "{params.p}"`:               false,
		`"python3", "run.py", "-c", "{params.p}"`:             false,
		`"perl", "-ne", "{params.p}"`:                         true,
		`"node", "--eval", "{params.p}"`:                      true,
		`"pdftoppm", "-c", "{params.p}"`:                      false,
	} {
		_, err := Parse("kinds.toml", []byte("[k]\ncommand = ["+command+"]\nparams.p.type = \"string\"\n"))
		if (err != nil) != script || err != nil && !strings.Contains(err.Error(), "has {params.p} in a script") {
			t.Errorf("%s: got %v", command, err)
		}
	}
}

func TestK02AnArgumentIsNoLongerThanTheSystemTakes(t *testing.T) {
	k := &Kind{Name: "k", Command: []string{"prog", strings.Repeat("{output}", 300)}}
	if _, err := k.Argv(Values{Output: strings.Repeat("x", 437)}); err == nil || err.Error() != "an argument of k has 131100 bytes: at most 131071 are possible" {
		t.Errorf("got %.200v", err)
	}
	if _, err := k.Argv(Values{Output: "a\x00"}); err == nil || err.Error() != "an argument of k holds a NUL byte" {
		t.Errorf("got %v", err)
	}
}

// TestK02ArgumentsAreWhatTheFileSays makes commands of random texts and placeholders, and
// compares each argument with what its parts stand for.
func TestK02ArgumentsAreWhatTheFileSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -,.-~\n]?[ -~é\n]{0,9}`)
		stand := map[string]string{
			"{input}": places.Input[0], "{output}": places.Output, "{work}": places.Work, "{checkpoint}": places.Checkpoint, "{params}": places.Params,
			"{job_id}": string(places.JobID), "{attempt}": "2", "{params.a}": value.Draw(t, "a"), "{params.b}": value.Draw(t, "b"), "{{": "{", "}}": "}",
			" ": " ", "$(x)": "$(x)", "é": "é", "-": "-",
		}
		var names []string
		for name := range stand {
			names = append(names, name)
		}
		slices.Sort(names)
		k := &Kind{Name: "k", AllowDash: true, Params: []Param{{Name: "a", Type: String}, {Name: "b", Type: String}}, Command: []string{"prog"}}
		want := []string{"prog"}
		for _, parts := range rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(names), 0, 4), 0, 5).Draw(t, "command") {
			k.Command = append(k.Command, strings.Join(parts, ""))
			filled := ""
			for _, part := range parts {
				filled += stand[part]
			}
			want = append(want, filled)
		}
		raw, err := json.Marshal(map[string]string{"a": stand["{params.a}"], "b": stand["{params.b}"]})
		if err != nil {
			t.Fatal(err)
		}
		v := places
		if v.Param, err = k.CheckParams(raw); err != nil {
			t.Fatal(err)
		}
		if got, err := k.Argv(v); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, %v, want %q", k.Command, got, err, want)
		}
	})
}

func FuzzK02Argv(f *testing.F) {
	for _, s := range []string{"", "a b", "-rf", "$(x)", "a\nb", "\x00", "{input}", "{{", "\xff", `"`, strings.Repeat("x", 5000)} {
		f.Add(s, s, int64(-1), true)
	}
	k := &Kind{
		Name: "k", Command: []string{"prog", "{params.a}", "x{params.a}y{params.b}", "--n={params.n}", "{{{params.t}}}"},
		Params: []Param{{Name: "a", Type: String}, {Name: "b", Type: String, MaxLength: 100}, {Name: "n", Type: Integer}, {Name: "t", Type: Boolean}},
	}
	f.Fuzz(func(t *testing.T, a, b string, n int64, truth bool) {
		raw := []byte{'{'}
		for name, text := range map[string]string{"a": a, "b": b, "n": strconv.FormatInt(n, 10), "t": strconv.FormatBool(truth)} {
			value, err := k.ParseParam(name, text)
			if err != nil {
				return
			}
			if len(raw) > 1 {
				raw = append(raw, ',')
			}
			raw = append(append(strconv.AppendQuote(raw, name), ':'), value...)
		}
		normalized, err := k.CheckParams(append(raw, '}'))
		bad := func(s string, most int) bool {
			return strings.HasPrefix(s, "-") || strings.Contains(s, "\x00") || len(s) > most
		}
		if isBad := bad(a, DefaultMaxLength) || bad(b, 100) || n > maxInteger || n < -maxInteger; isBad != (err != nil) {
			t.Fatalf("a %q, b %q, n %d: %v", a, b, n, err)
		}
		if err != nil {
			return
		}
		got, err := k.Argv(Values{Param: normalized})
		want := []string{"prog", a, "x" + a + "y" + b, "--n=" + strconv.FormatInt(n, 10), "{" + strconv.FormatBool(truth) + "}"}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	})
}
