package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestG14ReadAck(t *testing.T) {
	r := JobResult{
		JobID: job, ClientID: "c", ExecName: "a.b", Status: Failed, Stdout: "x\n\u2028<", Stderr: strings.Repeat("e", 100), OutputArchive: []byte("PK\x03\x04"), ExitCode: new(3),
		Reason: ReasonExit, Attempt: 2, DurationMs: 1500, Index: new(int64(7)), ArrayID: &attempt, Artifacts: []Blob{*blob()},
	}
	payload, err := MarshalResult(&r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadAck(payload)
	if err != nil {
		t.Fatal(err)
	}
	want := Ack{JobID: job, ClientID: "c", ExecName: "a.b", Status: Failed, Reason: "exit", Attempt: 2, DurationMs: 1500, ExitCode: new(3), Index: new(int64(7))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestG14G22ReadAckFromOtherWorkers(t *testing.T) {
	const head = `{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e",`
	for _, test := range []struct{ name, payload, want string }{
		{"one that succeeded", goldenResult, ""},
		{"one with null for all that may be missing", head + `"Status":"FAILED","Stdout":null,"Stderr":null,"OutputArchive":null,"ExitCode":null,"Attempt":null,"Index":null,"Reason":null}`, ""},
		{"one that was run before", head + `"Status":"DUPLICATE","Stdout":"","Stderr":""}`, ""},
		{"members that are not known", head + `"Status":"OK","Extra":{"JobId":1},"More":[[[]]]}`, ""},
		{"an archive with line ends", head + `"Status":"OK","OutputArchive":"QUJD\r\nREVG"}`, ""},
		{"an archive with escapes", head + `"Status":"OK","OutputArchive":"QUI\u002B"}`, ""},
		{"a status that is not known", head + `"Status":"ok"}`, "Status"},
		{"no status", head + `"Stdout":""}`, "Status"},
		{"no JSON", "", "no JSON"},
		{"no object", "[]", "no JSON object"},
		{"a part of an object", head, "no JSON"},
		{"two objects", goldenResult + "{}", "more after"},
		{"no JobId", `{"ClientId":"c","ExecName":"e","Status":"OK"}`, "JobId"},
		{"no ClientId", `{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ExecName":"e","Status":"OK"}`, "ClientId"},
		{"a JobId that is no GUID", strings.Replace(goldenResult, "35918bc9-", "35918bc9", 1), "JobId"},
		{"an archive that is no base64", head + `"Status":"OK","OutputArchive":"QUJ"}`, "OutputArchive"},
		{"an archive of another alphabet", head + `"Status":"OK","OutputArchive":"QU-_"}`, "OutputArchive"},
		{"an archive that is a number", head + `"Status":"OK","OutputArchive":1}`, "OutputArchive"},
		{"an output that is no text", head + `"Status":"OK","Stdout":{}}`, "Stdout"},
		{"an exit code that is text", head + `"Status":"OK","ExitCode":"1"}`, "ExitCode"},
		{"an attempt that is no whole number", head + `"Status":"OK","Attempt":1.5}`, "Attempt"},
		{"a negative duration", head + `"Status":"OK","DurationMs":-1}`, "negative"},
		{"a long reason", head + `"Status":"FAILED","Reason":"` + strings.Repeat("r", 65) + `"}`, "Reason"},
		{"a member twice", head + `"Status":"OK","status":"FAILED"}`, "twice"},
		{"text that is not UTF-8", head + `"Status":"OK","Stdout":"` + "\xff" + `"}`, "UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ReadAck([]byte(test.payload))
			wantError(t, "ReadAck", err, test.want)
			if err == nil && json.Unmarshal([]byte(test.payload), &JobResult{}) != nil {
				t.Error("the client cannot read it")
			}
		})
	}
}
