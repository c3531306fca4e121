package wire

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

// request returns a good request.
func request() *JobRequest {
	return &JobRequest{JobID: job, ClientID: "clientA", ExecName: "calc.A", Args: []string{"input.txt"}, Files: []InputFile{{Name: "input.txt", Content: []byte("hello")}}}
}

// requests are good and bad ones. They are checked by CheckRequest and by ReadSubmit.
var requests = []struct {
	name   string
	change func(r *JobRequest)
	want   string // a part of the error; empty for none
}{
	{"a request as it should be", func(*JobRequest) {}, ""},
	{"no JobId", func(r *JobRequest) { r.JobID = GUID{} }, "JobId is missing"},
	{"no ClientId", func(r *JobRequest) { r.ClientID = "" }, "ClientId"},
	{"the longest ClientId", func(r *JobRequest) { r.ClientID = strings.Repeat("c", 64) }, ""},
	{"a ClientId of 65 bytes", func(r *JobRequest) { r.ClientID = strings.Repeat("c", 65) }, "ClientId"},
	{"a ClientId with a dot", func(r *JobRequest) { r.ClientID = "a.b" }, "ClientId"},
	{"a ClientId with a wildcard", func(r *JobRequest) { r.ClientID = "*" }, "ClientId"},
	{"a ClientId that is not ASCII", func(r *JobRequest) { r.ClientID = "é" }, "ClientId"},
	{"no ExecName", func(r *JobRequest) { r.ExecName = "" }, "ExecName"},
	{"an ExecName of many tokens", func(r *JobRequest) { r.ExecName = "gpu.train.v-2_b" }, ""},
	{"an ExecName with an empty token", func(r *JobRequest) { r.ExecName = "a..b" }, "ExecName"},
	{"an ExecName that ends with a dot", func(r *JobRequest) { r.ExecName = "a." }, "ExecName"},
	{"an ExecName that leads out", func(r *JobRequest) { r.ExecName = "../x" }, "ExecName"},
	{"an ExecName with a slash", func(r *JobRequest) { r.ExecName = "a/b" }, "ExecName"},
	{"an ExecName with a drive", func(r *JobRequest) { r.ExecName = `C:\x` }, "ExecName"},
	{"an ExecName with a NUL", func(r *JobRequest) { r.ExecName = "a\x00" }, "ExecName"},
	{"an ExecName of 300 bytes", func(r *JobRequest) { r.ExecName = strings.Repeat("abc.", 75) + "d" }, "at most 200"},
	{"an ExecName with a token of 65 bytes", func(r *JobRequest) { r.ExecName = strings.Repeat("a", 65) }, "ExecName"},
	{"no arguments and no files", func(r *JobRequest) { r.Args, r.Files = nil, nil }, ""},
	{"the most arguments", func(r *JobRequest) { r.Args = make([]string, MaxArgs) }, ""},
	{"one argument more", func(r *JobRequest) { r.Args = make([]string, MaxArgs+1) }, "more than 1000 Args"},
	{"the longest arguments", func(r *JobRequest) { r.Args = []string{strings.Repeat("a", MaxArgBytes-1), "b"} }, ""},
	{"one byte more of arguments", func(r *JobRequest) { r.Args = []string{strings.Repeat("a", MaxArgBytes), "b"} }, "more than 131072 bytes"},
	{"an argument with a NUL", func(r *JobRequest) { r.Args = []string{"a", "b\x00c"} }, "argument 2 has a NUL"},
	{"the most files", func(r *JobRequest) { r.Files = files(MaxFiles) }, ""},
	{"one file more", func(r *JobRequest) { r.Files = files(MaxFiles + 1) }, "more than 1000 Files"},
	{"a file without a name", func(r *JobRequest) { r.Files[0].Name = "" }, "names no file"},
	{"a file in another directory", func(r *JobRequest) { r.Files[0].Name = "../x" }, "without directories"},
	{"two files with one name", func(r *JobRequest) { r.Files = append(r.Files, r.Files[0]) }, "given twice"},
	{"two files that differ by case", func(r *JobRequest) { r.Files = append(r.Files, InputFile{Name: "INPUT.txt", Content: []byte{}}) }, "given twice"},
	{"the name of the program", func(r *JobRequest) { r.Files[0].Name = "calc.a.EXE" }, "reserved"},
	{"the name of the archive", func(r *JobRequest) { r.Files[0].Name = "Result.zip" }, "reserved"},
	{"the directory of the grid", func(r *JobRequest) { r.Files[0].Name = ".grid" }, "reserved"},
	{"a file of the cache", func(r *JobRequest) { r.Files[0] = InputFile{Name: "a", CacheID: new("model.v2")} }, ""},
	{"a CacheId that leads out", func(r *JobRequest) { r.Files[0] = InputFile{Name: "a", CacheID: new("../x")} }, "CacheId"},
	{"an empty CacheId", func(r *JobRequest) { r.Files[0] = InputFile{Name: "a", CacheID: new("")} }, "CacheId"},
	{"a file that is nowhere", func(r *JobRequest) { r.Files[0].Content = nil }, "no Content, CacheId or Blob"},
	{"an empty file", func(r *JobRequest) { r.Files[0].Content = []byte{} }, ""},
	{"a blob", func(r *JobRequest) { r.Files[0] = InputFile{Name: "a", Blob: blob()} }, ""},
	{"a blob with a content", func(r *JobRequest) { r.Files[0].Blob = blob() }, "more than one"},
	{"a content that is in the cache as well", func(r *JobRequest) { r.Files[0].CacheID = new("a") }, "more than one"},
	{"a blob with a short digest", func(r *JobRequest) { r.Files[0] = InputFile{Name: "a", Blob: &Blob{SHA256: "ab"}} }, "Sha256"},
	{"a blob of negative size", func(r *JobRequest) {
		r.Files[0] = InputFile{Name: "a", Blob: blob()}
		r.Files[0].Blob.Size = -1
	}, "Size"},
	{"a blob with a name that leads out", func(r *JobRequest) {
		r.Files[0] = InputFile{Name: "a", Blob: blob()}
		r.Files[0].Blob.Name = "../x"
	}, "without directories"},
	{"a blob with a long address", func(r *JobRequest) {
		r.Files[0] = InputFile{Name: "a", Blob: blob()}
		r.Files[0].Blob.Ref = strings.Repeat("r", 2049)
	}, "Ref"},
	{"a timeout of 30 days", func(r *JobRequest) { r.TimeoutMs = 30 * 24 * 3600 * 1000 }, ""},
	{"a longer timeout", func(r *JobRequest) { r.TimeoutMs = 30*24*3600*1000 + 1 }, "TimeoutMs"},
	{"a negative timeout", func(r *JobRequest) { r.TimeoutMs = -1 }, "TimeoutMs"},
	{"100 attempts", func(r *JobRequest) { r.MaxAttempts = 100 }, ""},
	{"101 attempts", func(r *JobRequest) { r.MaxAttempts = 101 }, "MaxAttempts"},
	{"-1 attempts", func(r *JobRequest) { r.MaxAttempts = -1 }, "MaxAttempts"},
	{"the lowest priority", func(r *JobRequest) { r.Priority = -100 }, ""},
	{"a lower priority", func(r *JobRequest) { r.Priority = -101 }, "Priority"},
	{"a higher priority", func(r *JobRequest) { r.Priority = 101 }, "Priority"},
	{"a last moment", func(r *JobRequest) { r.NotAfter = new(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)) }, ""},
	{"both failures after which it is run again", func(r *JobRequest) { r.RetryOn = []string{"exit", "timeout"} }, ""},
	{"another failure", func(r *JobRequest) { r.RetryOn = []string{"oom"} }, "RetryOn"},
	{"many failures", func(r *JobRequest) { r.RetryOn = []string{"exit", "exit", "exit"} }, "RetryOn"},
	{"OnDisconnect cancel", func(r *JobRequest) { r.OnDisconnect = "cancel" }, ""},
	{"another OnDisconnect", func(r *JobRequest) { r.OnDisconnect = "stop" }, "OnDisconnect"},
	{"an environment", func(r *JobRequest) { r.Env = map[string]string{"_A1": "x=y\n", "b": ""} }, ""},
	{"a variable without a name", func(r *JobRequest) { r.Env = map[string]string{"": "x"} }, "Env"},
	{"a variable that begins with a digit", func(r *JobRequest) { r.Env = map[string]string{"1A": "x"} }, "Env"},
	{"a variable with =", func(r *JobRequest) { r.Env = map[string]string{"A=B": "x"} }, "Env"},
	{"a value with a NUL", func(r *JobRequest) { r.Env = map[string]string{"A": "x\x00"} }, "NUL"},
	{"a variable of the grid", func(r *JobRequest) { r.Env = map[string]string{"GRID_JOB_ID": "x"} }, "GRID_"},
	{"a variable of the loader", func(r *JobRequest) { r.Env = map[string]string{"LD_PRELOAD": "./x.so"} }, "LD_"},
	{"the largest environment", func(r *JobRequest) { r.Env = map[string]string{"A": strings.Repeat("x", MaxEnvBytes-1)} }, ""},
	{"a larger environment", func(r *JobRequest) { r.Env = map[string]string{"A": strings.Repeat("x", MaxEnvBytes), "B": ""} }, "more than 65536 bytes"},
	{"an array", func(r *JobRequest) { r.Array = "0-999999" }, ""},
	{"an array with a step", func(r *JobRequest) { r.Array = "0-9:2" }, "Array"},
	{"a trace", func(r *JobRequest) { r.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" }, ""},
	{"a trace with a line end", func(r *JobRequest) { r.Trace = "00\n" }, "Trace"},
	{"a long trace", func(r *JobRequest) { r.Trace = strings.Repeat("0", 129) }, "Trace"},
}

func blob() *Blob { return &Blob{SHA256: strings.Repeat("0a", 32), Size: 1 << 30} }

func files(n int) (all []InputFile) {
	for i := range n {
		all = append(all, InputFile{Name: strconv.Itoa(i), Content: []byte{}})
	}
	return all
}

func TestG25G62CheckRequest(t *testing.T) {
	for _, test := range requests {
		t.Run(test.name, func(t *testing.T) {
			r := request()
			test.change(r)
			wantError(t, "CheckRequest", CheckRequest(r), test.want)
			payload, err := MarshalRequest(r)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ReadSubmit(payload)
			wantError(t, "ReadSubmit", err, test.want)
		})
	}
}

// wantError checks that err has a part, or that there is none if the part is empty.
func wantError(t *testing.T, what string, err error, part string) {
	t.Helper()
	if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
		t.Errorf("%s = %v, want an error with %q", what, err, part)
	}
}

func TestG76IndexNeedsArrayID(t *testing.T) {
	for _, test := range []struct {
		name, want string
		change     func(r *JobRequest)
	}{
		{"an element", "", func(r *JobRequest) { r.Index, r.ArrayID = new(int64(7)), &attempt }},
		{"an index without an array", "come together", func(r *JobRequest) { r.Index = new(int64(7)) }},
		{"an array without an index", "come together", func(r *JobRequest) { r.ArrayID = &attempt }},
		{"a negative index", "Index -1", func(r *JobRequest) { r.Index, r.ArrayID = new(int64(-1)), &attempt }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request()
			test.change(r)
			wantError(t, "CheckRequest", CheckRequest(r), test.want)
			payload, err := MarshalRequest(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ReadSubmit(payload); err == nil {
				t.Error("a client has set what only leaders set")
			}
		})
	}
}

func TestG76ParseArray(t *testing.T) {
	for _, test := range []struct {
		in          string
		first, last int64
		ok          bool
	}{
		{"0-0", 0, 0, true},
		{"7", 7, 7, true},
		{"3-12", 3, 12, true},
		{"0-999999", 0, 999_999, true},
		{"999999999-999999999", 999_999_999, 999_999_999, true},
		{"0-1000000", 0, 0, false},
		{"2-1", 0, 0, false},
		{"1000000000", 0, 0, false},
		{"18446744073709551616", 0, 0, false},
		{"", 0, 0, false},
		{"-", 0, 0, false},
		{"1-", 0, 0, false},
		{"-1", 0, 0, false},
		{"+1-2", 0, 0, false},
		{"1_0", 0, 0, false},
		{"0x1", 0, 0, false},
		{"1-2-3", 0, 0, false},
		{"1 - 2", 0, 0, false},
	} {
		first, last, err := ParseArray(test.in)
		if first != test.first || last != test.last || (err == nil) != test.ok {
			t.Errorf("ParseArray(%q) = %d, %d, %v", test.in, first, last, err)
		}
	}
}

func TestG21G24Marshal(t *testing.T) {
	payload, err := MarshalRequest(&JobRequest{JobID: job, ClientID: "c", ExecName: "e", Files: nil})
	const want = `{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Args":[],"Files":[]}`
	if string(payload) != want || err != nil {
		t.Errorf("got %s, %v\nwant %s", payload, err, want)
	}
	for _, vector := range []struct {
		marshal func() ([]byte, error)
		want    string
	}{
		{func() ([]byte, error) {
			return MarshalRequest(&JobRequest{JobID: job, ClientID: "clientA", ExecName: "calcA", Args: []string{"input.txt"}, Files: []InputFile{{Name: "input.txt", Content: []byte("hello")}}})
		}, goldenRequest},
		{func() ([]byte, error) {
			return MarshalResult(&JobResult{JobID: job, ClientID: "clientA", ExecName: "calcA", Status: OK, Stdout: "done\n"})
		}, goldenResult},
	} {
		if got, err := vector.marshal(); string(got) != vector.want || err != nil {
			t.Errorf("got %s, %v\nwant %s", got, err, vector.want)
		}
	}

	payload, err = MarshalResult(&JobResult{JobID: job, ClientID: "c", ExecName: "e", Status: Failed, Stdout: "a\xffb<&>", Stderr: "\xe2\x82", OutputArchive: []byte("PK")})
	if err != nil {
		t.Fatal(err)
	}
	var r JobResult
	if err := json.Unmarshal(payload, &r); err != nil {
		t.Fatal(err)
	}
	if r.Stdout != "a\ufffdb<&>" || r.Stderr != "\ufffd\ufffd" || string(r.OutputArchive) != "PK" {
		t.Errorf("read %q, %q and %q", r.Stdout, r.Stderr, r.OutputArchive)
	}
	if strings.Contains(string(payload), `\u003c`) {
		t.Errorf("%s is larger than it must be", payload)
	}
}

func TestG20G23JSONMembers(t *testing.T) {
	r := request()
	r.Options = Options{
		TimeoutMs: 1, MaxAttempts: 2, Priority: 3, NotAfter: new(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), RetryOn: []string{"exit"}, OnDisconnect: "cancel",
		Env: map[string]string{"A": "b"}, Array: "0-1", Index: new(int64(1)), ArrayID: &job, Trace: "t",
	}
	r.Files[0].CacheID = new("c")
	r.Files[0].Blob = blob()
	payload, err := MarshalRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"clientA","ExecName":"calc.A","Args":["input.txt"],` +
		`"Files":[{"Name":"input.txt","CacheId":"c","Content":"aGVsbG8=","Blob":{"Name":"","Sha256":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","Size":1073741824}}],` +
		`"TimeoutMs":1,"MaxAttempts":2,"Priority":3,"NotAfter":"2026-01-02T03:04:05Z","RetryOn":["exit"],"OnDisconnect":"cancel","Env":{"A":"b"},` +
		`"Array":"0-1","Index":1,"ArrayId":"35918bc9-196d-40ea-9779-889d79b753f0","Trace":"t"}`
	if string(payload) != want {
		t.Errorf("got  %s\nwant %s", payload, want)
	}
}
