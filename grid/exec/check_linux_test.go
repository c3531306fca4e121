package exec

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG62FileNamesStayInDirectory(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "../x", "a..b", "a/b", `a\b`, `C:\x`, "/etc/passwd", "a\x00b", "a\nb", "a\xffb", strings.Repeat("x", 256),
		"con", "NUL.txt", "com1", "LPT9.log", "CONIN$", "aux:x", "nul .txt", "calcA.exe", "CALCA.EXE", "result.zip", "Result.Zip", ".grid", ".GRID",
	} {
		if err := CheckFileName(name, "calcA"); err == nil {
			t.Errorf("CheckFileName(%.40q) = nil, want an error", name)
		}
	}
	for _, name := range []string{"input.txt", "结果.mp4", "a b", ".hidden", "console.txt", "com10", "calcB.exe", strings.Repeat("x", 255), "a.b.c", "-rf"} {
		if err := CheckFileName(name, "calcA"); err != nil {
			t.Errorf("CheckFileName(%.40q) = %v", name, err)
		}
	}
}

func TestG25BadRequestsAreRefused(t *testing.T) {
	id := "cached"
	bad := "../" + id
	for _, tt := range []struct {
		name string
		edit func(q *wire.JobRequest)
		want string // in the error; empty for none
	}{
		{"good", func(*wire.JobRequest) {}, ""},
		{"no id", func(q *wire.JobRequest) { q.JobID = wire.GUID{} }, "JobId is missing"},
		{"client", func(q *wire.JobRequest) { q.ClientID = "a b" }, "ClientId"},
		{"exec", func(q *wire.JobRequest) { q.ExecName = "../../bin/sh" }, "ExecName"},
		{"exec without a part", func(q *wire.JobRequest) { q.ExecName = "a..b" }, "ExecName"},
		{"exec with dots", func(q *wire.JobRequest) { q.ExecName = "gpu.calcA" }, ""},
		{"time", func(q *wire.JobRequest) { q.TimeoutMs = -1 }, "TimeoutMs is -1"},
		{"most args", func(q *wire.JobRequest) { q.Args = make([]string, wire.MaxArgs) }, ""},
		{"too many args", func(q *wire.JobRequest) { q.Args = make([]string, wire.MaxArgs+1) }, "1001 Args"},
		{"largest args", func(q *wire.JobRequest) { q.Args = []string{strings.Repeat("x", wire.MaxArgBytes)} }, ""},
		{"too large args", func(q *wire.JobRequest) { q.Args = []string{"x", strings.Repeat("x", wire.MaxArgBytes)} }, "131073 bytes of Args"},
		{"NUL", func(q *wire.JobRequest) { q.Args = []string{"a", "\x00"} }, "argument 1 of Args"},
		{"too many files", func(q *wire.JobRequest) { q.Files = make([]wire.InputFile, wire.MaxFiles+1) }, "1001 Files"},
		{"same files", func(q *wire.JobRequest) { q.Files = []wire.InputFile{file("a", ""), file("A", "")} }, "same name"},
		{"no content", func(q *wire.JobRequest) { q.Files = []wire.InputFile{{Name: "a"}} }, "neither Content nor"},
		{"two contents", func(q *wire.JobRequest) {
			q.Files = []wire.InputFile{{Name: "a", Content: []byte{}, CacheID: &id}}
		}, "more than one of"},
		{"cache", func(q *wire.JobRequest) { q.Files = []wire.InputFile{{Name: "a", CacheID: &bad}} }, "CacheId"},
		{"blob", func(q *wire.JobRequest) { q.Files = []wire.InputFile{{Name: "a", Blob: &wire.Blob{SHA256: "x"}}} }, "Sha256"},
		{"variable", func(q *wire.JobRequest) { q.Env = map[string]string{"LEVEL": "1"} }, ""},
		{"no variable", func(q *wire.JobRequest) { q.Env = map[string]string{"A=B": "1"} }, "variable \"A=B\" of Env must be"},
		{"loader", func(q *wire.JobRequest) { q.Env = map[string]string{"LD_PRELOAD": "./x.so"} }, "LD_PRELOAD of Env may not"},
		{"ours", func(q *wire.JobRequest) { q.Env = map[string]string{"GRID_JOB_ID": "x"} }, "GRID_JOB_ID of Env may not"},
		{"value", func(q *wire.JobRequest) { q.Env = map[string]string{"A": "\x00"} }, "variable A of Env has a NUL"},
	} {
		q := request()
		tt.edit(&q)
		err := Check(&q)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
