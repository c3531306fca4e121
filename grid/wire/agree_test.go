package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// requestPayloads are as other implementations write them: with escapes for all that is not ASCII letters, with null for what is
// missing, with members that are not known, in any order and case.
var requestPayloads = []string{
	goldenRequest,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"clientA","ExecName":"calcA","Args":[],"Files":[]}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"clientA","ExecName":"calcA","Args":null,"Files":null}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"clientA","ExecName":"calcA","Args":["\u003Ca\u0026b\u003E","\u65E5\u672C","\uD83D\uDE00","\u0022\\\/"],` +
		`"Files":[{"Name":"\u65E5.txt","CacheId":null,"Content":"YQ\u002B\u002B"},{"Name":"b","CacheId":"lib.v1","Content":null}]}`,
	`{"Extra":null,"execname":"e","clientid":"c","jobid":"35918BC9196D40EA9779889D79B753F0","More":{"JobId":"x","Files":[[]]},"args":[null]}`,
	` { "JobId" : "35918bc9-196d-40ea-9779-889d79b753f0" , "ClientId" : "c\u0041" , "ExecName" : "e" , "TimeoutMs" : 5000 , "MaxAttempts" : 3 , "Priority" : -7 , ` +
		`"NotAfter" : "2026-01-02T03:04:05.6789+09:00" , "RetryOn" : [ "exit" , "timeout" ] , "OnDisconnect" : "cancel" , "Env" : { "A" : "\u0062" , "C" : null } , "Array" : "3-7" , "Trace" : "t" } `,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","TimeoutMs":null,"MaxAttempts":null,"Priority":null,"NotAfter":null,"RetryOn":null,` +
		`"OnDisconnect":null,"Env":null,"Array":null,"Index":null,"ArrayId":null,"Trace":null,"Files":[{"Name":"a","Content":"","Blob":null}]}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Files":[{"Name":"a","Blob":{"Name":null,"Sha256":"` +
		`0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","Size":7,"Ref":"r","X":1}}]}`,
}

// refusedPayloads are taken by encoding/json, and peers disagree about what they mean.
var refusedPayloads = []string{
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","ExecName":"f"}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","execname":"f"}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Env":{"A":"1","A":"2"}}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Files":[{"Name":"a","Content":""}],"Files":[]}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Files":[{"Name":"a","name":"b","Content":""}]}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Files":[{"Name":"a","Content":[1,2]}]}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Args":["` + "\xff" + `"]}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Args":["\uD83D"]}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Index":7,"ArrayId":"35918bc9-196d-40ea-9779-889d79b753f0"}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Checkpoint":{}}`,
	`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Attempt":2}`,
}

// refusals are what the error has for such a payload.
var refusals = []string{"is there twice", "duplicate object member", "invalid UTF-8", "invalid surrogate pair", "Content: want a string", "set by the leader", "frame too large"}

func TestG21ReadSubmitAgreesWithJSON(t *testing.T) {
	for _, payload := range requestPayloads {
		if !agree(t, payload) {
			t.Errorf("refused: %s", payload)
		}
	}
	for _, payload := range refusedPayloads {
		if agree(t, payload) {
			t.Errorf("accepted: %s", payload)
		}
	}
}

// FuzzF4ReadSubmit checks that ReadSubmit finds what encoding/json and CheckRequest find.
func FuzzF4ReadSubmit(f *testing.F) {
	for _, payload := range append(requestPayloads, refusedPayloads...) {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) { agree(t, payload) })
}

// agree compares ReadSubmit with encoding/json and CheckRequest, and reports whether it accepts a payload.
func agree(t *testing.T, payload string) bool {
	t.Helper()
	got, err := ReadSubmit([]byte(payload))
	var r JobRequest
	err2 := json.Unmarshal([]byte(payload), &r)
	if err2 == nil {
		err2 = CheckRequest(&r)
	}
	if err == nil && err2 != nil {
		t.Errorf("%s\nis refused with %v", payload, err2)
	}
	if err != nil {
		if err2 == nil && !hasAny(err.Error(), refusals) && !repeats(payload) {
			t.Errorf("%s\nis refused by ReadSubmit alone with %v", payload, err)
		}
		return false
	}
	want := Submit{JobID: r.JobID, ClientID: r.ClientID, ExecName: r.ExecName, Options: r.Options, Files: len(r.Files)}
	for _, file := range r.Files {
		want.ContentBytes += int64(len(file.Content))
		if file.Blob != nil {
			want.Blobs = append(want.Blobs, *file.Blob)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Submit{})); diff != "" {
		t.Errorf("%s\nwant -, got +\n%s", payload, diff)
	}
	checkElement(t, got, payload, r)
	return true
}

// checkElement checks that the payload of an array's element differs from a request by what the leader adds alone.
func checkElement(t *testing.T, s Submit, payload string, want JobRequest) {
	t.Helper()
	var got JobRequest
	element := s.ElementPayload([]byte(payload), attempt, 7)
	if err := json.Unmarshal(element, &got); err != nil {
		t.Errorf("%s\nbecomes the element %s: %v", payload, element, err)
	}
	want.ArrayID, want.Index, want.JobID = new(want.JobID), new(int64(7)), attempt
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\nbecomes the element %s: %s", payload, element, diff)
	}
}

// repeats reports whether an object has two members whose names differ by case at most. Then ReadSubmit may refuse the first one
// for what encoding/json forgets.
func repeats(payload string) bool {
	var names []map[string]bool // of the objects that are open; nil for an array
	for dec, name := json.NewDecoder(strings.NewReader(payload)), false; ; {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		inObject := len(names) > 0 && names[len(names)-1] != nil
		switch token {
		case json.Delim('{'):
			names, name = append(names, map[string]bool{}), true
			continue
		case json.Delim('['):
			names = append(names, nil)
			continue
		case json.Delim('}'), json.Delim(']'):
			names = names[:len(names)-1]
			name = true // of the object around it, if there is one
			continue
		}
		if inObject && name {
			key := FoldCase(token.(string))
			if names[len(names)-1][key] {
				return true
			}
			names[len(names)-1][key] = true
		}
		name = !name || !inObject
	}
}

func hasAny(s string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

// FuzzF4ReadAck checks that ReadAck finds what encoding/json finds, so that a client can read what it is sent.
func FuzzF4ReadAck(f *testing.F) {
	f.Add(goldenResult)
	f.Add(`{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"c","ExecName":"e","Status":"FAILED","Stdout":null,"ExitCode":-1,"Attempt":2,"DurationMs":3,"Index":4,"Reason":"exit","OutputArchive":"UEsD\n"}`)
	f.Fuzz(func(t *testing.T, payload string) {
		got, err := ReadAck([]byte(payload))
		if err != nil {
			return
		}
		// Members that ReadAck skips may have any form, which is the client's affair.
		var r struct {
			JobID         GUID   `json:"JobId"`
			ClientID      string `json:"ClientId"`
			ExecName      string
			Status        string
			Reason        string
			Attempt       int
			DurationMs    int64
			ExitCode      *int
			Index         *int64
			Stdout        string
			Stderr        string
			OutputArchive []byte
		}
		if err := json.Unmarshal([]byte(payload), &r); err != nil {
			t.Fatalf("%s: %v", payload, err)
		}
		want := Ack{
			JobID: r.JobID, ClientID: r.ClientID, ExecName: r.ExecName, Status: r.Status, Reason: r.Reason, Attempt: r.Attempt, DurationMs: r.DurationMs,
			ExitCode: r.ExitCode, Index: r.Index,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", payload, diff)
		}
	})
}
