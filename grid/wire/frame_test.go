package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	job     = mustGUID("35918bc9-196d-40ea-9779-889d79b753f0")
	attempt = mustGUID("00112233-4455-4677-8899-aabbccddeeff")
	member  = mustGUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
)

func mustGUID(s string) GUID {
	g, err := ParseGUID(s)
	if err != nil {
		panic(err)
	}
	return g
}

const (
	goldenRequest = `{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"clientA","ExecName":"calcA","Args":["input.txt"],` +
		`"Files":[{"Name":"input.txt","CacheId":null,"Content":"aGVsbG8="}]}`
	goldenResult = `{"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"clientA","ExecName":"calcA","Status":"OK",` +
		`"Stdout":"done\n","Stderr":"","OutputArchive":null}`
)

// golden returns the frames of testdata/frames.txt, and their bytes, by name.
func golden(tb testing.TB) (map[string]Frame, map[string][]byte) {
	tb.Helper()
	frames := map[string]Frame{
		"Credit(4)":                 {Type: Credit, MsgID: job, Payload: AppendCredit(nil, 4)},
		"HelloClient clientA cap 8": {Type: HelloClient, Subject: "clientA", Payload: []byte(`{"ClientId":"clientA","DesiredParallelism":8}`)},
		"HelloWorker":               {Type: HelloWorker, MsgID: member, Subject: DefaultPattern, Payload: []byte{}},
		"SubmitJob":                 {Type: SubmitJob, MsgID: job, Subject: SubmitSubject("calcA"), Payload: []byte(goldenRequest)},
		"AssignJob":                 {Type: AssignJob, MsgID: job, Subject: AssignSubject("calcA", member), Payload: []byte(goldenRequest)},
		"AssignJob to a worker that lists accept": {Type: AssignJob, MsgID: job, CorrID: attempt, Subject: AssignSubject("calcA", member), Payload: []byte(goldenRequest)},
		"AckJob":                {Type: AckJob, CorrID: job, Payload: []byte(goldenResult)},
		"Result":                {Type: Result, MsgID: job, CorrID: job, Subject: ResultSubject("clientA", job), Payload: []byte(goldenResult)},
		"Accept":                {Type: Accept, MsgID: attempt, CorrID: job, Payload: []byte{}},
		"SubmitAck of two jobs": {Type: SubmitAck, Payload: AppendGUIDs(nil, job, attempt)},
	}
	text, err := os.ReadFile("testdata/frames.txt")
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, found := strings.Cut(strings.TrimSpace(line), "\t")
		if !found {
			continue // a comment
		}
		if all[name], err = hex.DecodeString(strings.ReplaceAll(digits, " ", "")); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
	}
	if len(all) != len(frames) {
		tb.Fatalf("testdata/frames.txt has %d frames, want %d", len(all), len(frames))
	}
	return frames, all
}

func TestG01GoldenFrames(t *testing.T) {
	frames, all := golden(t)
	for name, want := range all {
		f := frames[name]
		if err := f.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := f.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("%s is written as\n%x, want\n%x", name, got, want)
		}
		got, err := NewReader(bytes.NewReader(want)).Read()
		if diff := cmp.Diff(f, got); diff != "" || err != nil {
			t.Errorf("%s is read with error %v and difference %s", name, err, diff)
		}
	}
}

// raw returns a frame's bytes with the lengths that it is given.
func raw(length uint32, subjectLen int, subject string, payloadLen int32, payload string) []byte {
	to := binary.LittleEndian.AppendUint32(nil, length)
	to = append(to, byte(Credit))
	to = append(to, make([]byte, 32)...)
	to = binary.LittleEndian.AppendUint16(to, uint16(subjectLen))
	to = append(to, subject...)
	to = binary.LittleEndian.AppendUint32(to, uint32(payloadLen))
	return append(to, payload...)
}

func TestG01ReadRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		in   []byte
	}{
		{"length 0", raw(0, 0, "", 0, "")},
		{"length 38", raw(38, 0, "", 0, "")},
		{"one byte more than the largest frame", raw(MaxFrame+1, 0, "", MaxFrame+1-minFrame, strings.Repeat("x", MaxFrame+1-minFrame))},
		{"a length that is negative for others", raw(math.MaxUint32, 0, "", 0, "")},
		{"a subject up to the end of the frame", raw(minFrame+4, 5, "abcd", 0, "")},
		{"a subject one byte too long", raw(minFrame+4, 8, "abcd", 0, "xxxx")},
		{"a subject over the length of the payload", raw(minFrame+4, 6, "abcd", 0x64636261, "")},
		{"a subject of the largest length", raw(minFrame, math.MaxUint16, "", 0, "")},
		{"a payload that is too short", raw(minFrame+4, 0, "", 3, "abcd")},
		{"a payload that is too long", raw(minFrame+4, 0, "", 5, "abcde")},
		{"a payload of length -1", raw(minFrame+4, 0, "", -1, "abcd")},
		{"the least payload length", raw(minFrame, 0, "", math.MinInt32, "")},
		{"the most payload length", raw(minFrame, 0, "", math.MaxInt32, "")},
		{"a subject that is not UTF-8", raw(minFrame+2, 2, "\xc3\x28", 0, "")},
		{"a subject with a NUL", raw(minFrame+3, 3, "a\x00b", 0, "")},
	} {
		t.Run(test.name, func(t *testing.T) {
			next := Frame{Type: Drain}
			r := NewReader(bytes.NewReader(next.Append(test.in)))
			if f, err := r.Read(); !errors.Is(err, ErrFrame) {
				t.Errorf("Read = %+v, %v, want %v", f, err, ErrFrame)
			}
		})
	}
}

func TestG01LargestFrameIsRead(t *testing.T) {
	f := Frame{Type: AckJob, Subject: "s", Payload: bytes.Repeat([]byte("0123456789abcde"), MaxFrame/15+1)[:MaxFrame-minFrame-1]}
	if f.Len() != 4_194_304 {
		t.Fatalf("the frame has %d bytes", f.Len())
	}
	got, err := NewReader(bytes.NewReader(f.Append(nil))).Read()
	if err != nil || !bytes.Equal(got.Payload, f.Payload) {
		t.Errorf("read %d bytes with error %v", len(got.Payload), err)
	}
}

func TestG03TooLargeFramesAreNotWritten(t *testing.T) {
	largest := Frame{Type: AckJob, Payload: make([]byte, MaxFrame-minFrame)}
	if err := largest.Check(); err != nil {
		t.Errorf("the largest frame: %v", err)
	}
	for name, f := range map[string]Frame{
		"a payload of one byte more": {Type: AckJob, Payload: make([]byte, MaxFrame-minFrame+1)},
		"a subject of one byte more": {Type: AckJob, Subject: strings.Repeat("s", MaxSubject+1)},
	} {
		if err := f.Check(); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: Check = %v, want %v", name, err, ErrTooLarge)
		}
	}
}

func TestG06PayloadLimitsLeaveRoom(t *testing.T) {
	client, exec := strings.Repeat("c", MaxName), strings.Repeat("e", MaxName)
	result := Frame{Type: Result, Subject: ResultSubject(client, job), Payload: make([]byte, MaxAck(client))}
	if result.Len() != MaxFrame {
		t.Errorf("a Result of the largest AckJob has %d bytes, want %d", result.Len(), MaxFrame)
	}
	if want := 4_194_304 - 39 - 44 - len(client); MaxAck(client) != want {
		t.Errorf("MaxAck = %d, want %d", MaxAck(client), want)
	}

	// The longest subject that another leader may use has the worker's id with hyphens; an element of an array has a longer payload.
	head := `{"JobId":"` + job.N() + `","ClientId":"c","ExecName":"` + exec + `","Args":[],"Files":[],"Array":"999999998-999999999","Note":"`
	payload := []byte(head + strings.Repeat("x", MaxSubmit(exec)-len(head)-2) + `"}`)
	s, err := ReadSubmit(payload)
	if err != nil {
		t.Fatal(err)
	}
	assign := Frame{Type: AssignJob, Subject: AssignPrefix + exec + "." + member.String(), Payload: s.ElementPayload(payload, NewGUID(), 999_999_999)}
	if assign.Len() != MaxFrame {
		t.Errorf("an AssignJob of the largest SubmitJob has %d bytes, want %d", assign.Len(), MaxFrame)
	}
	if _, err := ReadSubmit(append(payload, ' ')); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %v, want %v", err, ErrTooLarge)
	}
}

func TestG07LargestArchiveInAResult(t *testing.T) {
	r := &JobResult{JobID: job, ClientID: "clientA", ExecName: "calcA", Status: OK, OutputArchive: make([]byte, 3_145_551)}
	payload, err := MarshalResult(r)
	if err != nil {
		t.Fatal(err)
	}
	if most := MaxAck("clientA"); len(payload) > most || len(payload) < most-8 {
		t.Errorf("a result with an archive of %d bytes has %d, want at most %d and hardly less", len(r.OutputArchive), len(payload), most)
	}
}

func TestG08UnknownTypes(t *testing.T) {
	for n := range 256 {
		want := n >= 1 && n <= 5 || n == 9 || n == 10 || n >= 32 && n <= 47
		if got := Type(n).Known(); got != want {
			t.Errorf("Type(%d).Known() = %t, want %t", n, got, want)
		}
		if Type(n).String() == "" {
			t.Errorf("type %d has no name", n)
		}
	}
}

func TestG17G18TypeCodes(t *testing.T) {
	for code, want := range map[Type]string{
		1: "SubmitJob", 2: "AssignJob", 3: "AckJob", 4: "Credit", 5: "Result", 9: "HelloClient", 10: "HelloWorker",
		20: "NotLeader", 21: "LeaderHello", 22: "AppendEntries", 23: "AppendResp", 24: "RequestVote", 25: "VoteResp",
		32: "Welcome", 33: "Error", 34: "Ping", 35: "Pong", 36: "Accept", 37: "Renew", 38: "Cancel", 39: "SubmitAck", 40: "ResultAck",
		41: "Query", 42: "Status", 43: "Drain", 44: "BlobBegin", 45: "BlobChunk", 46: "BlobEnd", 47: "Report", 48: "type 48",
	} {
		if code.String() != want {
			t.Errorf("type %d is %s, want %s", byte(code), code, want)
		}
	}
}
