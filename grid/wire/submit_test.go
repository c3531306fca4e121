package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

const jobText = "35918bc9-196d-40ea-9779-889d79b753f0"

func small() []byte {
	return []byte(`{"JobId":"` + jobText + `","ClientId":"clientA","ExecName":"calcA","Args":["--n","12","input.txt"],"Files":[{"Name":"input.txt","CacheId":null,"Content":"aGVsbG8="}],"TimeoutMs":60000}`)
}

func TestG12ReadSubmit(t *testing.T) {
	got, err := ReadSubmit(small())
	if err != nil {
		t.Fatal(err)
	}
	got.idStart, got.idEnd = 0, 0
	id, _ := ParseGUID(jobText)
	want := Submit{JobID: id, ClientID: "clientA", ExecName: "calcA", Options: Options{TimeoutMs: 60000}, Files: 1, ContentBytes: 5}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestG20MistakesNameTheirFile(t *testing.T) {
	for files, want := range map[string]string{
		`{"Name":"a","Content":"aGk="},{"Name":"b","Content":"x"}`: `file "b": Content is no base64`,
		`{"Name":"a","Content":"aGk="},{"Content":"x","Name":"b"}`: `file 2: Content is no base64`,
		`{"Name":"b","Content":7}`:                                 `file "b": Content: want a string`,
		`{"Name":"b","CacheId":"../x"}`:                            `file "b": CacheId`,
		`{"Name":"b","Blob":{"Sha256":"x","Size":1}}`:              `file "b": member Sha256`,
	} {
		_, err := ReadSubmit(fmt.Appendf(nil, `{"JobId":%q,"ClientId":"a","ExecName":"x","Files":[%s]}`, jobText, files))
		wantError(t, "ReadSubmit", err, want)
	}
}

func TestG76ElementPayload(t *testing.T) {
	payload := []byte(` {"jobid" : "35918BC9196D40EA9779889D79B753F0" ,"ClientId":"c","ExecName":"x.y","Args":["{i}"],"Array":"0-9"} ` + "\n")
	s, err := ReadSubmit(payload)
	if err != nil {
		t.Fatal(err)
	}
	element := NewGUID()
	got := s.ElementPayload(payload, element, 7)
	want := ` {"jobid" : "` + element.String() + `" ,"ClientId":"c","ExecName":"x.y","Args":["{i}"],"Array":"0-9","ArrayId":"` + jobText + `","Index":7} ` + "\n"
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(got)-len(payload) > elementRoom {
		t.Errorf("an element is %d bytes longer, and room is for %d", len(got)-len(payload), elementRoom)
	}
	var r JobRequest
	if err := json.Unmarshal(got, &r); err != nil {
		t.Fatal(err)
	}
	if err := CheckRequest(&r); err != nil {
		t.Error(err)
	}
}

func BenchmarkReadSubmit(b *testing.B) {
	large := bytes.Replace(small(), []byte("aGVsbG8="), bytes.Repeat([]byte("aGVsbG8h"), 3<<20/8), 1)
	for _, payload := range [][]byte{small(), large} {
		b.Run(fmt.Sprint(len(payload)), func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadSubmit(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
