package kinds

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kind is a whole kinds file with one kind k: what its table has, and a program.
func kind(lines ...string) string {
	return "[k]\ncommand = [\"true\"]\n" + strings.Join(lines, "\n") + "\n"
}

// param is a whole kinds file with one kind k and one parameter p, whose keys begin in line 4.
func param(lines ...string) string {
	return kind("[k.params.p]", strings.Join(lines, "\n"))
}

// wrongFiles are kinds files with all that is wrong with each: line, column and text.
var wrongFiles = []struct {
	name, text string
	want       []string
}{
	{"an assignment without a value", "[k]\ncommand =\n", []string{"2:10: the file is not TOML: "}},
	{"a string without an end", "[k]\ncommand = [\"true]\n", []string{"2:18: the file is not TOML: "}},
	{"a list without an end", "[k]\ncommand = [\"true\"", []string{"2:17: the file is not TOML: "}},
	{"JSON", `{"k": {"command": ["true"]}}`, []string{"1:1: the file is not TOML: "}},
	{"YAML", "k:\n  command: [a]\n", []string{"1:2: the file is not TOML: "}},
	{"an unquoted duration", kind("timeout = 20s"), []string{"3:13: the file is not TOML: strings must be quoted"}},
	{"bytes that are not UTF-8", "[k]\ncommand = [\"\xff\"]\n", []string{"2:13: the file is not TOML: "}},
	{"a NUL byte in the file", "[k]\x00\n", []string{"1:4: the file is not TOML: "}},
	{"brackets without end", "a = " + strings.Repeat("[", 200_000), []string{"the file is not TOML: arrays and inline tables are nested more"}},

	{"a key above the first kind", "retries = 3\n" + kind(), []string{"1:1: retries stands above the first kind: write it below a line such as [thumbnail]"}},
	{"a kind that is a string", "k = \"true\"\n", []string{`1:1: k is "true": want a kind, which begins with a line [k]`}},
	{"a kind that is a list of tables", "[[k]]\ncommand = [\"true\"]\n", []string{"1:3: k is a list of tables: write [k] for one table"}},
	{"a name with a capital", "[Thumb]\ncommand = [\"true\"]\n", []string{"1:2: Thumb is no name of a kind: want a small letter, then at most 31 small letters, digits and -"}},
	{"a name with a dot", "['a.b']\ncommand = [\"true\"]\n", []string{`1:2: "a.b" is no name of a kind`}},
	{"a name that is too long", "[" + strings.Repeat("k", 33) + "]\ncommand = [\"true\"]\n", []string{"is no name of a kind"}},
	{"an empty name", "['']\ncommand = [\"true\"]\n", []string{`1:2: "" is no name of a kind`}},
	{"a built-in kind", "[pdf]\ncommand = [\"true\"]\n", []string{"1:2: pdf is a built-in kind: choose another name"}},
	{"an operation", "[drain]\ncommand = [\"true\"]\n", []string{"1:2: drain is an operation of the Job API: choose another name"}},
	{"a kind that is given twice", kind() + "[k]\n", []string{"4:2: k is given twice: first in line 1"}},
	{"a key that is given twice", kind("slots = 1", "slots = 2"), []string{"4:1: k.slots is given twice: first in line 3"}},
	{"a key that is given twice in an inline table", kind(`params.p = {type = "string", type = "string"}`), []string{"3:30: k.params.p.type is given twice: first in line 3"}},
	{"a table that a dotted key has made", kind("params.p.type = \"string\"", "[k.params.p]"), []string{"4:2: k.params.p is given twice: first in line 3"}},
	{"a table below a string", kind("description = \"d\"", "[k.description.x]"), []string{"4:2: k.description is given twice: first in line 3"}},
	{"a key with too many names", kind("params.p.type.of.it = 1"), []string{"3:1: k.params.p.type.… has too many names: the longest keys are KIND.params.NAME.KEY"}},
	{"a table with too many names", kind("[k.params.p.a.b.c.d.e]"), []string{"3:2: k.params.p.a.… has too many names"}},
	{"a misspelt key", kind("timeot = \"1s\""), []string{"3:1: k.timeot is no key of a kind: do you mean timeout?"}},
	{"another word for a key", kind("max_retries = 1"), []string{"3:1: k.max_retries is no key of a kind: do you mean retries?"}},
	{"a key in camel case", kind("maxInput = 1"), []string{"3:1: k.maxInput is no key of a kind: do you mean max_input?"}},
	{"a key that is like none", kind("colour = 1"), []string{"3:1: k.colour is no key of a kind: want description, command, outputs"}},
	{"a key with control characters", kind(`"a\u001b[31m" = 1`), []string{`3:1: k."a\x1b[31m" is no key of a kind`}},
	{"several mistakes in two kinds", "[a]\nretries = -1\n[b]\ncommand = []\ngpus = 65\n", []string{
		`1:2: a has no command: want command = ["program", "argument"]`,
		"2:11: a.retries is -1: want a whole number from 0 to 100",
		"4:1: b.command is empty: want a program and its arguments",
		"5:8: b.gpus is 65: want a whole number from 0 to 64",
	}},
	{"columns are characters", kind(`env = ["é", "3"]`), []string{`3:8: k.env has "é": want the name of a variable`, `3:13: k.env has "3": want the name of a variable`}},

	{"a misspelt command", "[k]\ncomand = [\"true\"]\n", []string{"2:1: k.comand is no key of a kind: do you mean command?"}},
	{"a command line", "[k]\ncommand = \"pdftoppm -r 60\"\n", []string{`2:11: k.command is one string: want a list of the program and its arguments, such as ["pdftoppm", "-r", "60"]`}},
	{"a command line with quotes", "[k]\ncommand = 'sh -c \"true\"'\n", []string{`2:11: k.command is one string: want a list of the program and its arguments, such as ["program", "argument"]`}},
	{"a number in the command", "[k]\ncommand = [\"true\", 60]\n", []string{"2:20: k.command has 60: want only strings in the list"}},
	{"a program that is empty", "[k]\ncommand = [\"\"]\n", []string{"2:12: k.command has an empty program: want its name or its path"}},
	{"a program that is a parameter", "[k]\ncommand = [\"{params.p}\"]\n[k.params.p]\ntype = \"string\"\n", []string{`2:12: k.command begins with "{params.p}": the program itself cannot hold placeholders or braces; each argument is a text of its own, as in ["wc", "{input}"]`}},
	{"an argument with a NUL byte", "[k]\ncommand = [\"true\", \"a\\u0000\"]\n", []string{"2:20: k.command has a string with a NUL byte"}},
	{"an argument that is too long", "[k]\ncommand = [\"true\", \"" + strings.Repeat("x", maxArgument+1) + "\"]\n", []string{"2:20: k.command has a string of 16385 bytes: at most 16384 are allowed"}},
	{"too many arguments", "[k]\ncommand = [" + strings.Repeat(`"x", `, 1001) + "]\n", []string{"2:1: k.command has 1001 arguments: at most 1000 are allowed"}},
	{"an unknown placeholder", "[k]\ncommand = [\"true\", \"{inptu}\"]\n", []string{"2:20: k.command has {inptu}, which is no placeholder: do you mean {input}?; write {{ and }} for braces"}},
	{"another word for a placeholder", "[k]\ncommand = [\"true\", \"{files}\"]\n", []string{"2:20: k.command has {files}, which is no placeholder: do you mean {input}?; write {{ and }} for braces"}},
	{"a parameter with another prefix", "[k]\ncommand = [\"true\", \"{param.dpi}\"]\nparams.dpi.type = \"integer\"\n", []string{"2:20: k.command has {param.dpi}, which is no placeholder: do you mean {params.dpi}?"}},
	{"an empty placeholder", "[k]\ncommand = [\"true\", \"{}\"]\n", []string{"2:20: k.command has {}, which is no placeholder"}},
	{"a placeholder without its end", "[k]\ncommand = [\"true\", \"{input\"]\n", []string{"2:20: k.command has a { without its }: write {{ for a brace"}},
	{"a brace without its beginning", "[k]\ncommand = [\"true\", \"input}\"]\n", []string{"2:20: k.command has a } without its {: write }} for a brace"}},
	{"a parameter that there is not", "[k]\ncommand = [\"true\", \"-r{params.dip}\"]\nparams.dpi.type = \"integer\"\n", []string{"2:20: k.command has {params.dip}, and there is no parameter dip: do you mean dpi?"}},
	{"a parameter without its prefix", "[k]\ncommand = [\"true\", \"{dpi}\"]\nparams.dpi.type = \"integer\"\n", []string{"2:20: k.command has {dpi}, which is no placeholder: do you mean {params.dpi}?"}},
	{"a value in the script of a shell", "[k]\ncommand = [\"sh\", \"-ec\", \"echo {params.p}\"]\nparams.p.type = \"string\"\n", []string{"2:25: k.command has {params.p} in a script, which would run what a value says: give it as an argument of its own, behind the script"}},
	{"the input in the script of an interpreter", "[k]\ncommand = [\"/usr/bin/python3.12\", \"-c\", \"open('{input}')\"]\n", []string{"k.command has {input} in a script"}},

	{"a pattern of outputs that is none", kind(`outputs = ["[a"]`), []string{`3:12: k.outputs has "[a": it is no pattern: want *, ? and [a-z] in names`}},
	{"a pattern of outputs that leads out", kind(`outputs = ["../*.png", "/etc/*"]`), []string{`3:12: k.outputs has "../*.png": want a pattern of files in {output}`, `3:24: k.outputs has "/etc/*": want a pattern of files in {output}`}},
	{"a pattern of outputs in a directory", kind(`outputs = ["pages/*.png", "{output}/a", "[^/]*"]`), []string{`3:12: k.outputs has "pages/*.png": want a pattern of files in {output} itself: what`, `3:27: k.outputs has "{output}/a": want a pattern of files in {output} itself: what`}},
	{"a backslash in quotes", kind(`progress = "(\d+)%"`), []string{"3:14: the file is not TOML: invalid escape character U+0064 'd': write the text between ' and ', where a backslash needs no other"}},
	{"a pattern of outputs that is empty", kind(`outputs = [""]`), []string{"3:12: k.outputs has an empty string"}},
	{"outputs that are one string", kind(`outputs = "*.png"`), []string{`3:11: k.outputs is "*.png": want a list of strings, such as ["a", "b"]`}},
	{"a number as a string", kind(`retries = "many"`), []string{`3:11: k.retries is "many": want a whole number from 0 to 100`}},
	{"a number with a point", kind("retries = 1.5"), []string{"3:11: k.retries is 1.5: want a whole number from 0 to 100"}},
	{"a number of more than 64 bits", kind("retries = 99999999999999999999"), []string{"3:11: k.retries is 99999999999999999999: want a whole number from 0 to 100"}},
	{"no slots", kind("slots = 0"), []string{"3:9: k.slots is 0: want a whole number from 1 to 256"}},
	{"too many files", kind("max_files = 10_001"), []string{"3:13: k.max_files is 10_001: want a whole number from 1 to 10000"}},
	{"a timeout that is too short", kind(`timeout = "1ms"`), []string{`3:11: k.timeout is "1ms": want a duration from 1s to 168h, such as "90s", "2m" or "1h30m"`}},
	{"a timeout that is too long", kind("timeout = 604801"), []string{"3:11: k.timeout is 604801: want a duration from 1s to 168h"}},
	{"a timeout that is a date", kind("timeout = 2026-01-01"), []string{"3:11: k.timeout is 2026-01-01: want a duration"}},
	{"processor time in words", kind(`cpu = "two hours"`), []string{`3:7: k.cpu is "two hours": want a duration from 1s to 10000h`}},
	{"a size without a clear unit", kind(`memory = "1G"`), []string{`3:10: k.memory is "1G": want a size from 1MiB to 100TiB, such as "500MB" or "1GiB", or a number of bytes`}},
	{"a size that is too small", kind("memory = 512"), []string{"3:10: k.memory is 512: want a size from 1MiB to 100TiB"}},
	{"a size that is too large", kind(`disk = "101TiB"`), []string{`3:8: k.disk is "101TiB": want a size from 1MiB to 100TiB`}},
	{"a negative size", kind(`max_input = "-1GiB"`, "checkpoint_max = -1"), []string{`3:13: k.max_input is "-1GiB": want a size from 1 byte to 100TiB`, "4:18: k.checkpoint_max is -1: want a size from 0 bytes to 100TiB"}},
	{"a checkpoint that the disk has no room for", kind(`checkpoint_max = "11GiB"`), []string{"3:18: k.checkpoint_max is more than disk, 10GiB, which is for the checkpoint, too"}},
	{"the same, with a disk of its own", kind(`checkpoint_max = "2MiB"`, `disk = "1MiB"`), []string{"3:18: k.checkpoint_max is more than disk, 1MiB"}},
	{"a backoff that shrinks", kind(`backoff = "10m..10s"`), []string{`3:11: k.backoff is "10m..10s": want a duration or a range such as "10s..10m", from 100ms to 24h`}},
	{"a backoff that is a list", kind(`backoff = ["10s", "10m"]`), []string{"3:1: k.backoff is a list: want a duration or a range"}},
	{"an exit code of success", kind("retry_exit = [0, 256]"), []string{"3:15: k.retry_exit has 0: want exit codes from 1 to 255", "3:18: k.retry_exit has 256: want exit codes from 1 to 255"}},
	{"an exit code that is retried and final", kind("retry_exit = [3]", "final_exit = [3, 4, 4]"), []string{"4:1: k.final_exit has 3, which is in retry_exit, too", "4:21: k.final_exit has 4 twice"}},
	{"an exit code alone", kind("final_exit = 3"), []string{"3:14: k.final_exit is 3: want a list of exit codes, such as [3, 4]"}},
	{"a progress that is no expression", kind(`progress = "("`), []string{`3:12: k.progress is "(": missing closing ): "("`}},
	{"a progress without a group", kind(`progress = "page"`), []string{"3:12: k.progress has 0 groups: want one (percent or a fraction) or two (done and total)"}},
	{"a progress with three groups", kind(`progress = "(a)(b)(c)"`), []string{"3:12: k.progress has 3 groups"}},
	{"an oom that is no expression", kind(`oom = "["`), []string{`3:7: k.oom is "[": missing closing ]: "["`}},
	{"an oom that matches anything", kind(`oom = "(no room)?"`), []string{`3:7: k.oom is "(no room)?", which matches an empty line, so any failure: want what the program writes`}},
	{"an oom that is too long", kind(`oom = "` + strings.Repeat("x", 1025) + `"`), []string{"3:7: k.oom has 1025 bytes: at most 1024 are allowed"}},
	{"an expression that is too long", kind(`progress = "(` + strings.Repeat("x", 1023) + `)"`), []string{"3:12: k.progress has 1025 bytes: at most 1024 are allowed"}},
	{"an expression that is too large", kind(`progress = '((?:\pL{100}){10}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000})'`), []string{"it is too large: at most 20000 steps are allowed"}},
	{"a variable with its value", kind(`env = ["A=b"]`), []string{`3:8: k.env has "A=b": want only the name, the value is that of the worker`}},
	{"a variable that is set anyway", kind(`env = ["PATH", "BATCHFLEET_JOB_ID", "A", "A"]`), []string{"3:8: k.env has PATH, which is set for every program", "3:16: k.env has BATCHFLEET_JOB_ID, which is set", "3:42: k.env has A twice"}},
	{"a word for true", kind(`keep_log = "yes"`, "allow_dash = 1"), []string{`3:12: k.keep_log is "yes": want true or false`, "4:14: k.allow_dash is 1: want true or false"}},
	{"a description that is empty", kind(`description = ""`), []string{"3:15: k.description is empty: leave it out or say something"}},
	{"a description with control characters", kind(`description = "a\u001b[2J"`), []string{"3:15: k.description holds control characters or invisible ones"}},

	{"params that are a list", kind("params = [1]"), []string{"3:1: k.params is a list: want parameters, each below a line such as [k.params.NAME]"}},
	{"a param that is a string", kind(`params.dpi = "integer"`), []string{`3:14: k.params.dpi is "integer": want a parameter, such as {type = "integer", default = 1}`}},
	{"a param with a name in capitals", kind(`params.DPI = {type = "integer"}`), []string{"3:1: k.params.DPI is no name of a parameter: want a small letter, then at most 63 small letters, digits and _"}},
	{"a param without a type", param("default = 1"), []string{`3:2: k.params.p has no type: want type = "string", "integer", "number", "boolean" or "enum"`}},
	{"a param of another type", param(`type = "int"`), []string{`4:8: k.params.p.type is "int": do you mean integer?`}},
	{"a param of a type that is like none", param(`type = "tensor"`), []string{`4:8: k.params.p.type is "tensor": want "string", "integer", "number", "boolean" or "enum"`}},
	{"a key of a param that is unknown", param(`type = "string"`, `regex = "a"`), []string{"5:1: k.params.p.regex is no key of a parameter: do you mean pattern?"}},
	{"a pattern on an integer", param(`type = "integer"`, `pattern = "a"`), []string{"5:1: k.params.p.pattern does not go with type integer: it is for string"}},
	{"a minimum on a string", param(`type = "string"`, "min = 1"), []string{"5:1: k.params.p.min does not go with type string: it is for integer or number"}},
	{"a pattern that is none", param(`type = "string"`, `pattern = "a)|(b"`), []string{`5:11: k.params.p.pattern is "a)|(b": unexpected ): "a)|(b"`}},
	{"a minimum with a point, of an integer", param(`type = "integer"`, "min = 0.5"), []string{"5:7: k.params.p.min is 0.5: want a whole number"}},
	{"a maximum that is no number", param(`type = "number"`, "max = nan", "min = inf"), []string{"5:7: k.params.p.max is nan: want a number", "6:7: k.params.p.min is inf: want a number"}},
	{"a minimum above the maximum", param(`type = "integer"`, "min = 2", "max = 1"), []string{"5:7: k.params.p.min is 2, which is more than max, 1"}},
	{"a default of another type", param(`type = "integer"`, `default = "1"`), []string{`5:11: k.params.p.default is "1": want a whole number`}},
	{"a default below the minimum", param(`type = "integer"`, "min = 1", "default = 0"), []string{"6:11: k.params.p.default is 0: must be at least 1"}},
	{"a default above what is exact", param(`type = "integer"`, "default = 9007199254740992"), []string{"5:11: k.params.p.default is 9007199254740992: must be from -9007199254740991 to 9007199254740991"}},
	{"a default that does not match", param(`type = "string"`, `pattern = "[a-z]+"`, `default = "abc1"`), []string{`6:11: k.params.p.default is "abc1": must match [a-z]+`}},
	{"a default that is too long", param(`type = "string"`, "max_length = 3", `default = "abcd"`), []string{"6:11: k.params.p.default has 4 bytes: at most 3 are allowed"}},
	{"a default that is none of the values", param(`type = "enum"`, `values = ["fast", "best"]`, `default = "bset"`), []string{`6:11: k.params.p.default is "bset": do you mean "best"?`}},
	{"a default that begins with -", param(`type = "string"`, `default = "-rf"`), []string{`5:11: k.params.p.default is "-rf": it must not begin with -`}},
	{"a negative default that begins an argument", "[k]\ncommand = [\"true\", \"{params.p}\"]\n[k.params.p]\ntype = \"integer\"\ndefault = -1\n", []string{"5:11: k.params.p.default is -1: it must not be negative, because it begins an argument"}},
	{"a default of what is required", param(`type = "string"`, "required = true", `default = "a"`), []string{"6:1: k.params.p.default is never used: the parameter is required"}},
	{"an enum without values", param(`type = "enum"`), []string{`3:2: k.params.p has no values: want values = ["a", "b"]`}},
	{"an enum with no values", param(`type = "enum"`, "values = []"), []string{"5:1: k.params.p.values is empty: want the values that there are"}},
	{"values that are numbers or twice", param(`type = "enum"`, `values = [1, "a", "a"]`), []string{"5:11: k.params.p.values has 1: want only strings in the list", `5:19: k.params.p.values has "a" twice`}},
	{"a value that begins with -", param(`type = "enum"`, `values = ["-a"]`), []string{`5:11: k.params.p.values has "-a", which begins with -: the kind needs allow_dash = true`}},
	{"a length of nothing", param(`type = "string"`, "max_length = 0"), []string{"5:14: k.params.p.max_length is 0: want a whole number from 1 to 65536"}},
}

func TestK01EveryMistakeIsReportedWithItsPlaceAndItsKey(t *testing.T) {
	for _, tt := range wrongFiles {
		t.Run(tt.name, func(t *testing.T) {
			set, err := Parse("kinds.toml", []byte(tt.text))
			e := (*FileError)(nil)
			if !errors.As(err, &e) || set != nil {
				t.Fatalf("got %v, %v", set, err)
			}
			if len(e.Mistakes) != len(tt.want) || strings.Count(err.Error(), "\n") != len(tt.want)-1 {
				t.Errorf("got\n%v\nwant %d mistakes", err, len(tt.want))
			}
			for i, m := range e.Mistakes {
				if m.Key != "" && !strings.HasPrefix(m.Text, m.Key+" ") || m.Line < 1 || m.Column < 1 || m.String() != fmt.Sprintf("kinds.toml:%d:%d: %s", m.Line, m.Column, m.Text) {
					t.Errorf("got %#v", m)
				}
				if i < len(tt.want) && !strings.Contains(m.String(), tt.want[i]) {
					t.Errorf("got\n%s\nwant\n%s", m, tt.want[i])
				}
			}
		})
	}
}

func TestK01MistakesAreBounded(t *testing.T) {
	_, err := Parse("kinds.toml", []byte(strings.Repeat("[[a]]\n", 1500)))
	e := (*FileError)(nil)
	if !errors.As(err, &e) || len(e.Mistakes) != 1000 || e.More != 500 || !strings.HasSuffix(err.Error(), "\nand 500 mistakes more") {
		t.Errorf("got %.200v", err)
	}
	var b strings.Builder
	for i := range MaxKinds + 2 {
		fmt.Fprintf(&b, "[k%d]\ncommand = ['x']\n", i)
	}
	if _, err = Parse("kinds.toml", []byte(b.String())); err == nil || err.Error() != "kinds.toml:20001:2: k10000 is one kind too many: at most 10000 are allowed" {
		t.Errorf("got %v", err)
	}
	b.Reset()
	b.WriteString(kind())
	for i := range maxParams + 1 {
		fmt.Fprintf(&b, "params.p%d.type = 'string'\n", i)
	}
	if _, err = Parse("kinds.toml", []byte(b.String())); err == nil || err.Error() != "kinds.toml:104:1: k.params.p100 is one parameter too many: at most 100 are allowed" {
		t.Errorf("got %v", err)
	}
}

func TestK01HostileFilesAreRefused(t *testing.T) {
	repeated := func(begin, text, end string) string { return begin + strings.Repeat(text, (1<<20)/len(text)) + end }
	many := strings.Builder{}
	many.WriteString("[k]\ncommand = ['x']\n")
	for i := range 50_000 {
		fmt.Fprintf(&many, "retris%d=1\n", i)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"a key over and over in one line", repeated("k = {command = ['x'], slots = 1", ", slots = 1", "}"), "kinds.toml:1:34: k.slots is given twice: first in line 1\n"},
		{"unknown keys", many.String(), "kinds.toml:3:1: k.retris0 is no key of a kind: do you mean retries?\n"},
		{"a key of many names", repeated("", "a.", "a = 1"), "kinds.toml:1:1: a.a.a.a.… has too many names"},
		{"lists in lists", repeated("k = ", "[", ""), "kinds.toml:1:10005: the file is not TOML: "},
		{"tables in tables", repeated("k = ", "{a = ", ""), "kinds.toml:1:50005: the file is not TOML: "},
		{"arguments", repeated("[k]\ncommand = [", "'x', ", "]"), "kinds.toml:2:1: k.command has 209715 arguments: at most 1000 are allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("kinds.toml", []byte(tt.text))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Count(err.Error(), "\n") > maxMistakes {
				t.Errorf("got %.300v, want %s", err, tt.want)
			}
		})
	}
}

func TestK01AFileThatCannotBeReadIsNamed(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.toml")
	if err := os.WriteFile(large, make([]byte, MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(dir, "missing.toml"), dir, large} {
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "read kinds: ") || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v", file, err)
		}
	}
	if _, err := Parse("kinds.toml", make([]byte, MaxFile+1)); err == nil || !strings.Contains(err.Error(), "kinds.toml:1:1: the file has 8388609 bytes: at most 8388608 are allowed") {
		t.Errorf("got %v", err)
	}
}

func TestK01AnEmptyFileHasNoKinds(t *testing.T) {
	for _, text := range []string{"", "# nothing yet\n", "\ufeff# from an editor\r\n"} {
		if set := parse(t, text); len(set.Kinds) != 0 || set.Get("k") != nil {
			t.Errorf("got %v", set.Kinds)
		}
	}
}

func TestK01AFileWithABOMAndOtherLineEndsIsRead(t *testing.T) {
	_, err := Parse("kinds.toml", []byte("\ufeff[k]\r\ncommand = ['x']\r\nslots = 'x'\r\n"))
	if err == nil || err.Error() != `kinds.toml:3:9: k.slots is "x": want a whole number from 1 to 256` {
		t.Errorf("got %v", err)
	}
}
