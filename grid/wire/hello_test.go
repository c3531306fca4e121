package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestG10ReadConfig(t *testing.T) {
	for _, test := range []struct {
		name, subject, payload string
		want                   ClientConfig
		err                    string
	}{
		{"a client of the original protocol", "clientA", `{"ClientId":"clientA","DesiredParallelism":8}`, ClientConfig{ClientID: "clientA", DesiredParallelism: 8}, ""},
		{"one of ours", "c", `{"ClientId":"c","DesiredParallelism":1,"Features":["error","x"],"Token":"t"}`, ClientConfig{ClientID: "c", DesiredParallelism: 1, Features: []string{"error", "x"}, Token: "t"}, ""},
		{"no payload", "c", "", ClientConfig{ClientID: "c", DesiredParallelism: 4}, ""},
		{"a payload that is no JSON", "c", "cap=8", ClientConfig{ClientID: "c", DesiredParallelism: 4}, ""},
		{"a payload of another form", "c", `{"ClientId":"c","Features":"x","Token":"t"}`, ClientConfig{ClientID: "c", DesiredParallelism: 4}, ""},
		{"a number that is text", "c", `{"ClientId":"c","DesiredParallelism":"8","Features":["x"],"Token":"t"}`, ClientConfig{ClientID: "c", DesiredParallelism: 4, Features: []string{"x"}, Token: "t"}, ""},
		{"a number that is not whole", "c", `{"Features":["x"],"desiredParallelism":1.5}`, ClientConfig{ClientID: "c", DesiredParallelism: 4, Features: []string{"x"}}, ""},
		{"no number", "c", `{"ClientId":"c"}`, ClientConfig{ClientID: "c", DesiredParallelism: 1}, ""},
		{"0", "c", `{"DesiredParallelism":0}`, ClientConfig{ClientID: "c", DesiredParallelism: 1}, ""},
		{"a negative number", "c", `{"DesiredParallelism":-5}`, ClientConfig{ClientID: "c", DesiredParallelism: 1}, ""},
		{"a number that is too large", "c", `{"DesiredParallelism":2147483647}`, ClientConfig{ClientID: "c", DesiredParallelism: 10_000}, ""},
		{"another client", "c", `{"ClientId":"d","DesiredParallelism":8}`, ClientConfig{}, `ClientId "d"`},
		{"no client", "", `{"ClientId":"d"}`, ClientConfig{}, "ClientId"},
		{"a client with a dot", "a.b", ``, ClientConfig{}, "ClientId"},
		{"many features", "c", `{"Features":[` + strings.Repeat(`"a",`, 64) + `"a"]}`, ClientConfig{}, "65 Features"},
		{"a long feature", "c", `{"Features":["` + strings.Repeat("a", 33) + `"]}`, ClientConfig{}, "33 bytes"},
		{"a long token", "c", `{"Token":"` + strings.Repeat("a", 4097) + `"}`, ClientConfig{}, "Token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ReadConfig(test.subject, []byte(test.payload))
			wantError(t, "ReadConfig", err, test.err)
			if diff := cmp.Diff(test.want, got); err == nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestG11ReadCapability(t *testing.T) {
	full := Capability{
		Proto: 2, Features: []string{"accept", "renew"}, MaxParallel: 4, Host: "h", PID: 7, Version: "v1", Running: []Running{{JobID: job, AttemptID: attempt}}, Token: "t",
	}
	payload, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, payload string
		want          Capability
		err           string
	}{
		{"a worker of the original protocol", "", Capability{}, ""},
		{"one of ours", string(payload), full, ""},
		{"no JSON", "4", Capability{}, "HelloWorker"},
		{"a negative number of jobs", `{"MaxParallel":-1}`, Capability{}, "MaxParallel"},
		{"too many jobs", `{"MaxParallel":65537}`, Capability{}, "MaxParallel"},
		{"a long host", `{"Host":"` + strings.Repeat("h", 256) + `"}`, Capability{}, "Host"},
		{"many features", `{"Features":[` + strings.Repeat(`"a",`, 64) + `"a"]}`, Capability{}, "65 Features"},
		{"an attempt that is no GUID", `{"Running":[{"JobId":"1"}]}`, Capability{}, "no GUID"},
		{"many attempts", `{"Running":[` + strings.Repeat(`{},`, 65_536) + `{}]}`, Capability{}, "65537 attempts"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ReadCapability([]byte(test.payload))
			wantError(t, "ReadCapability", err, test.err)
			if diff := cmp.Diff(test.want, got); err == nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestG15G34Credit(t *testing.T) {
	for _, test := range []struct {
		payload []byte
		n       int
		ok      bool
	}{
		{nil, 1, true},
		{[]byte{4, 0, 0, 0}, 4, true},
		{AppendCredit(nil, 10_000), 10_000, true},
		{[]byte{0x11, 0x27, 0, 0}, 10_000, true},       // 10001
		{[]byte{0xff, 0xff, 0xff, 0x7f}, 10_000, true}, // the largest int32
		{[]byte{0, 0, 0, 0}, 0, false},
		{[]byte{0xff, 0xff, 0xff, 0xff}, -1, false},
		{[]byte{0, 0, 0, 0x80}, -1 << 31, false},
		{[]byte{4}, 0, false},
		{[]byte{4, 0, 0}, 0, false},
		{[]byte{4, 0, 0, 0, 0}, 0, false},
		{[]byte{4, 0, 0, 0, 0, 0, 0, 0}, 0, false},
	} {
		n, ok := ParseCredit(test.payload)
		if ok != test.ok || ok && n != test.n {
			t.Errorf("ParseCredit(%x) = %d, %t, want %d, %t", test.payload, n, ok, test.n, test.ok)
		}
	}
}

func TestG12G13G16Subjects(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{SubmitSubject("gpu.train"), "job.submit.gpu.train"},
		{AssignSubject("gpu.train", member), "job.assign.gpu.train.6ba7b8109dad41d180b400c04fd430c8"},
		{ResultSubject("clientA", job), "job.result.clientA.35918bc9196d40ea9779889d79b753f0"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
	for subject, want := range map[string]string{"job.submit.gpu.train": "gpu.train", "job.submit.": "", "job.assign.a": "-", "job.submit": "-", "": "-"} {
		exec, ok := ExecOf(subject)
		if got := map[bool]string{true: exec, false: "-"}[ok]; got != want {
			t.Errorf("ExecOf(%q) = %s", subject, fmt.Sprint(exec, ok))
		}
	}
}
