package pubsub

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/trace"
)

const goodTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

var (
	localRules = Rules{DefaultKind: "pdf"}
	cloudRules = Rules{DefaultKind: "pdf", Bucket: "own", Allowed: []string{"friend"}}
	s3Rules    = Rules{DefaultKind: "pdf", Bucket: "own", Scheme: "s3://", Allowed: []string{"friend"}}
)

func TestF03K14MessageBecomesAJob(t *testing.T) {
	when := time.Date(2026, 2, 12, 6, 30, 0, 0, time.UTC)
	tests := []struct {
		name  string
		rules Rules
		data  string
		attrs map[string]string
		want  jobs.Job
	}{
		{
			"example of the contract", localRules,
			`{"job_id": "f47ac10b-58cc-4372-a567-0e02b2c3d479",
			  "pdf_path": "uploads/f47ac10b-58cc-4372-a567-0e02b2c3d479/document.pdf",
			  "bucket_name": "local", "timestamp": "2026-02-12T06:30:00Z"}`, nil,
			jobs.Job{
				ID: "f47ac10b-58cc-4372-a567-0e02b2c3d479", Kind: "pdf",
				Input: "uploads/f47ac10b-58cc-4372-a567-0e02b2c3d479/document.pdf", Submitted: when,
			},
		},
		{"curl line of the contract", localRules, `{"job_id":"test-1","pdf_path":"test.pdf"}` + "\n", nil, jobs.Job{ID: "test-1", Kind: "pdf", Input: "test.pdf"}},
		{"job id alone", localRules, `{"job_id":"a"}`, nil, jobs.Job{ID: "a", Kind: "pdf"}},
		{"kind and pages", localRules, `{"job_id":"a","kind":"mock","pages":7}`, nil, jobs.Job{ID: "a", Kind: "mock", Pages: 7}},
		{"most pages", localRules, `{"job_id":"a","pages":100000}`, nil, jobs.Job{ID: "a", Kind: "pdf", Pages: jobs.MaxPages}},
		{"trace", localRules, `{"job_id":"a"}`, map[string]string{"traceparent": goodTrace, "x": "y"}, jobs.Job{ID: "a", Kind: "pdf", Trace: goodTrace}},
		{"bad trace is left out", localRules, `{"job_id":"a"}`, map[string]string{"traceparent": "00-zz"}, jobs.Job{ID: "a", Kind: "pdf"}},
		{"time with an offset", localRules, `{"job_id":"a","timestamp":"2026-02-12T15:30:00+09:00"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Submitted: when}},
		{"time that is none", localRules, `{"job_id":"a","timestamp":"yesterday"}`, nil, jobs.Job{ID: "a", Kind: "pdf"}},
		{"time of a wrong type", localRules, `{"job_id":"a","timestamp":{"s":1}}`, nil, jobs.Job{ID: "a", Kind: "pdf"}},
		{"unknown fields", localRules, `{"job_id":"a","priority":9,"x":{"y":[1,2]}}`, nil, jobs.Job{ID: "a", Kind: "pdf"}},
		{"field in another case is unknown", localRules, `{"job_id":"a","Kind":"mock","JOB_ID":"b"}`, nil, jobs.Job{ID: "a", Kind: "pdf"}},
		{"null fields count as absent", localRules, `{"job_id":"a","pdf_path":null,"bucket_name":null,"timestamp":null,"kind":null,"pages":null}`, nil, jobs.Job{ID: "a", Kind: "pdf"}},
		{"last of duplicate keys counts", localRules, `{"job_id":"a","job_id":"b","pdf_path":"x","pdf_path":"y"}`, nil, jobs.Job{ID: "b", Kind: "pdf", Input: "y"}},
		{"unicode name", localRules, `{"job_id":"a","pdf_path":"uploads/報告 №1.pdf"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "uploads/報告 №1.pdf"}},
		{"escaped name", localRules, `{"job_id":"\u0061","pdf_path":"a\/b.pdf"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "a/b.pdf"}},
		{"dots that climb nowhere", localRules, `{"job_id":"a","pdf_path":"a..b/...c.pdf"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "a..b/...c.pdf"}},
		{"local in the cloud is the own bucket", cloudRules, `{"job_id":"a","pdf_path":"x","bucket_name":"local"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "x"}},
		{"own bucket", cloudRules, `{"job_id":"a","pdf_path":"x","bucket_name":"own"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "x"}},
		{"allowed bucket", cloudRules, `{"job_id":"a","pdf_path":"x","bucket_name":"friend"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "gs://friend/x"}},
		{"gs in the own bucket", cloudRules, `{"job_id":"a","pdf_path":"gs://own/x/y"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "x/y"}},
		{"gs in an allowed bucket", cloudRules, `{"job_id":"a","pdf_path":"gs://friend/x/y"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "gs://friend/x/y"}},
		{"input is another name of pdf_path", cloudRules, `{"job_id":"a","input":"gs://friend/x"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "gs://friend/x"}},
		{"both names of one input", localRules, `{"job_id":"a","input":"x","pdf_path":"x"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "x"}},
		{"one of the names is empty", localRules, `{"job_id":"a","input":"","pdf_path":"x"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "x"}},
		{"several inputs", cloudRules, `{"job_id":"a","bucket_name":"friend","inputs":["x","gs://own/y"]}`, nil, jobs.Job{ID: "a", Kind: "pdf", Inputs: []string{"gs://friend/x", "y"}}},
		{"no input in a list", localRules, `{"job_id":"a","pdf_path":"x","inputs":[]}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "x"}},
		{"parameters, to the byte", localRules, `{"job_id":"a","params": {"b":"<\u00e9>", "a":1.50, "a":2} }`, nil, jobs.Job{ID: "a", Kind: "pdf", Payload: `{"b":"<\u00e9>", "a":1.50, "a":2}`}},
		{"new fields that are null", localRules, `{"job_id":"a","params":null,"input":null,"inputs":null}`, nil, jobs.Job{ID: "a", Kind: "pdf"}},
		{"the attribute is no kind", localRules, `{"job_id":"a"}`, map[string]string{"kind": "mock"}, jobs.Job{ID: "a", Kind: "pdf"}},
		{"s3 in the own bucket", s3Rules, `{"job_id":"a","pdf_path":"s3://own/x/y"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "x/y"}},
		{"s3 in an allowed bucket", s3Rules, `{"job_id":"a","pdf_path":"s3://friend/x/y"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "s3://friend/x/y"}},
		{"an allowed bucket of s3", s3Rules, `{"job_id":"a","pdf_path":"x","bucket_name":"friend"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "s3://friend/x"}},
		{"gs wins over bucket_name", cloudRules, `{"job_id":"a","pdf_path":"gs://friend/x","bucket_name":"foreign"}`, nil, jobs.Job{ID: "a", Kind: "pdf", Input: "gs://friend/x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.rules.decode([]byte(tt.data), tt.attrs)
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// malformed are messages that name no job.
var malformed = map[string]string{
	"nothing":                    "",
	"blanks":                     " \n\t ",
	"not JSON":                   "job_id=a",
	"unfinished":                 `{"job_id":"a"`,
	"more after the end":         `{"job_id":"a"} {"job_id":"b"}`,
	"null":                       "null",
	"string":                     `"a"`,
	"number":                     "17",
	"array":                      `[{"job_id":"a"}]`,
	"no job id":                  `{"pdf_path":"a.pdf"}`,
	"job id in another case":     `{"Job_Id":"a"}`,
	"null job id":                `{"job_id":null}`,
	"number as job id":           `{"job_id":17}`,
	"array as job id":            `{"job_id":["a"]}`,
	"object as job id":           `{"job_id":{"job_id":"a"}}`,
	"truth as job id":            `{"job_id":true}`,
	"empty job id":               `{"job_id":""}`,
	"job id that climbs":         `{"job_id":"../../etc"}`,
	"job id with two dots":       `{"job_id":"a..b"}`,
	"job id with a slash":        `{"job_id":"a/b"}`,
	"job id with a line break":   `{"job_id":"a\nb"}`,
	"job id with NUL":            `{"job_id":"a\u0000"}`,
	"job id with a brace":        `{"job_id":"a}:claim{"}`,
	"job id too long":            `{"job_id":"` + strings.Repeat("a", 129) + `"}`,
	"job id of a megabyte":       `{"job_id":"` + strings.Repeat("a", 1<<20) + `"}`,
	"last duplicate is bad":      `{"job_id":"a","job_id":5}`,
	"byte order mark":            "\ufeff" + `{"job_id":"a"}`,
	"UTF-16":                     "\xff\xfe{\x00\"\x00j\x00",
	"invalid UTF-8":              `{"job_id":"a","pdf_path":"` + "\xff" + `"}`,
	"depth bomb":                 strings.Repeat(`{"a":`, 1<<20),
	"array bomb beside a job id": `{"job_id":"a","x":` + strings.Repeat(`[`, 1<<20) + strings.Repeat(`]`, 1<<20) + `}`,
	"single quotes":              `{'job_id':'a'}`,
	"binary":                     "%PDF-1.7\n%\xe2\xe3\xcf\xd3",
}

func TestF04MessageThatNamesNoJobIsMalformed(t *testing.T) {
	for name, data := range malformed {
		t.Run(name, func(t *testing.T) {
			job, err := localRules.decode([]byte(data), map[string]string{"traceparent": goodTrace})
			if !errors.Is(err, errMalformed) {
				t.Errorf("decode = %+v, %v; want it to be malformed", job, err)
			}
			if !reflect.DeepEqual(job, jobs.Job{}) {
				t.Errorf("a malformed message became %+v", job)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

func TestF04K14MessageThatNamesABadJobIsTheJobsFailure(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	tests := []struct {
		name  string
		rules Rules
		field string
		want  string // part of the error
	}{
		{"climbs", localRules, `"pdf_path":"../secret"`, `segment ".."`},
		{"climbs in the middle", localRules, `"pdf_path":"a/../../b"`, `segment ".."`},
		{"climbs in disguise", localRules, `"pdf_path":"a/\u002e\u002e/b"`, `segment ".."`},
		{"here", localRules, `"pdf_path":"./a"`, `segment "."`},
		{"absolute", localRules, `"pdf_path":"/etc/passwd"`, "begins with a slash"},
		{"two slashes", localRules, `"pdf_path":"a//b"`, "empty segment"},
		{"directory", localRules, `"pdf_path":"a/"`, "empty segment"},
		{"NUL", localRules, `"pdf_path":"a\u0000b"`, "control character"},
		{"line break", localRules, `"pdf_path":"a\nb"`, "control character"},
		{"backslash", localRules, `"pdf_path":"a\\b"`, "backslash"},
		{"name too long", localRules, `"pdf_path":"` + strings.Repeat("a/", 512) + `b"`, "1025 bytes long"},
		{"segment too long", localRules, `"pdf_path":"` + strings.Repeat("a", 256) + `"`, "segment of 256 bytes"},
		{"name of 100 kB", localRules, `"pdf_path":"` + long + `"`, "bytes long"},
		{"name is a number", localRules, `"pdf_path":5`, "pdf_path is 5, want a string"},
		{"name is an array", localRules, `"pdf_path":["a"]`, `pdf_path is ["a"], want a string`},
		{"name is an object", localRules, `"pdf_path":{"a":1}`, "want a string"},
		{"bucket is a number", localRules, `"bucket_name":5`, "bucket_name is 5, want a string"},
		{"kind is a number", localRules, `"kind":5`, "kind is 5, want a string"},
		{"kind in capitals", localRules, `"kind":"PDF"`, `kind "PDF" must match`},
		{"kind with a line break", localRules, `"kind":"pdf\n"`, "must match"},
		{"kind of 100 kB", localRules, `"kind":"` + long + `"`, "must match"},
		{"pages is a string", localRules, `"pages":"5"`, `pages is "5", want a whole number`},
		{"pages is a fraction", localRules, `"pages":1.5`, "pages is 1.5, want a whole number"},
		{"pages is a number of 100 000 digits", localRules, `"pages":` + strings.Repeat("9", 100_000), "want a whole number"},
		{"pages below none", localRules, `"pages":-1`, "from 0 to 100000"},
		{"too many pages", localRules, `"pages":100001`, "from 0 to 100000"},
		{"bucket on local disk", localRules, `"pdf_path":"gs://own/x"`, "STORAGE_TYPE"},
		{"s3 on local disk", localRules, `"pdf_path":"s3://own/x"`, "STORAGE_TYPE"},
		{"s3 of a fleet in Cloud Storage", cloudRules, `"pdf_path":"s3://friend/x"`, "are named gs://bucket/name"},
		{"gs of a fleet in S3", s3Rules, `"pdf_path":"gs://friend/x"`, "are named s3://bucket/name"},
		{"s3 in a foreign bucket", s3Rules, `"pdf_path":"s3://foreign/x"`, `bucket "foreign" is neither`},
		{"s3 without a name", s3Rules, `"pdf_path":"s3://own"`, "not of the form s3://bucket/name"},
		{"s3 that climbs", s3Rules, `"pdf_path":"s3://friend/../own/x"`, `segment ".."`},
		{"foreign bucket on local disk", localRules, `"pdf_path":"x","bucket_name":"foreign"`, `bucket "foreign", but this fleet stores on local disk (STORAGE_TYPE)`},
		{"foreign bucket", cloudRules, `"pdf_path":"x","bucket_name":"foreign"`, `bucket "foreign" is neither`},
		{"gs in a foreign bucket", cloudRules, `"pdf_path":"gs://foreign/x"`, `bucket "foreign" is neither`},
		{"gs in a bucket called local", cloudRules, `"pdf_path":"gs://local/x"`, `bucket "local" is neither`},
		{"gs in a bucket in capitals", cloudRules, `"pdf_path":"gs://OWN/x"`, `bucket "OWN" is neither`},
		{"gs without a name", cloudRules, `"pdf_path":"gs://own"`, "not of the form"},
		{"gs with an empty name", cloudRules, `"pdf_path":"gs://own/"`, "is empty"},
		{"gs without a bucket", cloudRules, `"pdf_path":"gs:///x"`, "not of the form"},
		{"gs that climbs", cloudRules, `"pdf_path":"gs://friend/../own/x"`, `segment ".."`},
		{"gs in gs", cloudRules, `"pdf_path":"gs://own/gs://foreign/x"`, "empty segment"},
		{"gs in capitals", cloudRules, `"pdf_path":"GS://own/x"`, "empty segment"},
		{"two different inputs", localRules, `"pdf_path":"x","input":"y"`, `pdf_path is "x" and input "y"`},
		{"input climbs", localRules, `"input":"../secret"`, `input: object name`},
		{"input is a list", localRules, `"input":["a"]`, `input is ["a"], want a string`},
		{"input and inputs", localRules, `"input":"a","inputs":["b"]`, "both input and inputs"},
		{"one of the inputs climbs", localRules, `"inputs":["a","../b"]`, "inputs[1]: "},
		{"one of the inputs is in a foreign bucket", cloudRules, `"inputs":["gs://foreign/a"]`, `bucket "foreign" is neither`},
		{"one of the inputs is empty", localRules, `"inputs":["a",""]`, "inputs[1]: "},
		{"inputs is a string", localRules, `"inputs":"a"`, `inputs is "a", want a list of strings`},
		{"inputs of numbers", localRules, `"inputs":[5]`, "want a list of strings"},
		{"too many inputs", localRules, `"inputs":["a"` + strings.Repeat(`,"a"`, 1000) + `]`, "1001 inputs, at most 1000"},
		{"inputs with long names", localRules, `"inputs":["` + strings.Repeat("a/", 500) + `a"` + strings.Repeat(`,"`+strings.Repeat("a/", 500)+`a"`, 299) + `]`, "300300 bytes long, at most 262144"},
		{"params is a list", localRules, `"params":[1]`, `params is "[1]", want a JSON object`},
		{"params is a string", localRules, `"params":"{}"`, "want a JSON object"},
		{"params of 300 kB", localRules, `"params":{"a":"` + long + long + long + `"}`, "params is 300008 bytes long, at most 262144"},
		{"bucket of 100 kB", cloudRules, `"pdf_path":"x","bucket_name":"` + long + `"`, "is neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := `{"job_id":"a",` + tt.field + `}`
			job, err := tt.rules.decode([]byte(data), nil)
			if err == nil || errors.Is(err, errMalformed) {
				t.Fatalf("decode = %+v, %v; want a failure of the job", job, err)
			}
			if job.ID != "a" || job.Kind == "" || job.Input != "" {
				t.Errorf("the failed job is %+v, want its id, a kind and no input", job)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
			if len(err.Error()) > 500 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
			if _, again := tt.rules.decode([]byte(data), nil); again.Error() != err.Error() {
				t.Errorf("error is %q, then %q", err, again)
			}
		})
	}
}

func TestF04FirstBadFieldIsAlwaysTheSame(t *testing.T) {
	for range 50 {
		_, err := localRules.decode([]byte(`{"job_id":"a","pages":"x","kind":5,"bucket_name":5,"pdf_path":5}`), nil)
		if err == nil || !strings.Contains(err.Error(), "pdf_path") {
			t.Fatalf("error %v, want one about pdf_path", err)
		}
	}
}

func TestF04TenMegabytesOfNoiseTakeBoundedTime(t *testing.T) {
	testrun.Long(t, "it reads many megabytes")
	const size = 10_000_000 // the longest message Pub/Sub takes
	tests := map[string]string{
		"letters":       strings.Repeat("x", size),
		"zeros":         strings.Repeat("\x00", size),
		"open braces":   strings.Repeat("{", size),
		"open brackets": strings.Repeat("[", size),
		"quotes":        `{"job_id":` + strings.Repeat(`"`, size),
		"one string":    `{"job_id":"` + strings.Repeat(`a`, size) + `"}`,
		"escapes":       `{"job_id":"` + strings.Repeat(`\u0061`, size/6) + `"}`,
		"many keys":     `{` + strings.Repeat(`"a":0,`, size/6) + `"job_id":0}`,
		"many digits":   `{"job_id":` + strings.Repeat("9", size) + `}`,
		"blanks":        strings.Repeat(" ", size),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			// No limit is set here: if the time grew with the square of the size, the test
			// would not end for hours.
			_, err := localRules.decode([]byte(data), nil)
			if !errors.Is(err, errMalformed) || len(err.Error()) > 500 {
				t.Errorf("error %.500v, want a short one that says malformed", err)
			}
		})
	}
}

func TestF03K14EncodedJobDecodesToItself(t *testing.T) {
	segment := rapid.StringMatching(`[A-Za-z0-9 äö報№._()+-]{1,30}[a-z]`)
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SampledFrom([]Rules{localRules, cloudRules}).Draw(t, "rules")
		job := jobs.Job{
			ID:    jobs.ID(rapid.StringMatching(`[A-Za-z0-9]([._-]?[A-Za-z0-9]){0,60}`).Draw(t, "id")),
			Kind:  jobs.Kind(rapid.StringMatching(`[a-z][a-z0-9-]{0,31}`).Draw(t, "kind")),
			Pages: rapid.IntRange(0, jobs.MaxPages).Draw(t, "pages"),
		}
		if parts := rapid.SliceOfN(segment, 0, 5).Draw(t, "input"); len(parts) > 0 {
			job.Input = strings.Join(parts, "/")
			if rules.Bucket != "" && rapid.Bool().Draw(t, "elsewhere") {
				job.Input = "gs://friend/" + job.Input
			}
			if rapid.Bool().Draw(t, "several") {
				job.Input, job.Inputs = "", []string{job.Input, parts[0]}
			}
		}
		if rapid.Bool().Draw(t, "with parameters") {
			text, _ := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "params"))
			job.Payload = strings.ReplaceAll(string(text), `":"`, `" :  "`) // as no encoder writes it
		}
		if rapid.Bool().Draw(t, "timed") {
			job.Submitted = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "submitted"), 0).UTC()
		}
		if rapid.Bool().Draw(t, "traced") {
			job.Trace = rapid.StringMatching(`00-[1-9a-f]{32}-[1-9a-f]{16}-0[01]`).Draw(t, "trace")
		}
		data, attributes := rules.encode(job)
		got, err := rules.decode(data, attributes)
		if err != nil {
			t.Fatalf("decode %s: %v", data, err)
		}
		if diff := cmp.Diff(job, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", data, diff)
		}
	})
}

func TestF03EncodedMessageHasTheFieldsOfTheContract(t *testing.T) {
	data, attributes := localRules.encode(jobs.Job{ID: "a", Input: "uploads/a/x.pdf", Submitted: time.Date(2026, 2, 12, 6, 30, 0, 0, time.UTC), Trace: goodTrace})
	want := `{"job_id":"a","pdf_path":"uploads/a/x.pdf","bucket_name":"local","timestamp":"2026-02-12T06:30:00Z"}`
	if string(data) != want {
		t.Errorf("message\n got %s\nwant %s", data, want)
	}
	if diff := cmp.Diff(map[string]string{"traceparent": goodTrace}, attributes); diff != "" {
		t.Errorf("attributes: -want +got:\n%s", diff)
	}
	if data, attributes = cloudRules.encode(jobs.Job{ID: "a", Kind: "mock", Pages: 3}); attributes["kind"] != "mock" || string(data) != `{"job_id":"a","pdf_path":"","bucket_name":"own","kind":"mock","pages":3}` {
		t.Errorf("message of a mock job in the cloud is %s", data)
	}
}

func FuzzDecode(f *testing.F) {
	for _, data := range malformed {
		if len(data) < 1000 {
			f.Add([]byte(data), goodTrace)
		}
	}
	f.Add([]byte(`{"job_id":"a","pdf_path":"gs://friend/x","bucket_name":"own","timestamp":"2026-02-12T06:30:00Z","kind":"mock","pages":3}`), "x")
	f.Add([]byte(`{"job_id":"a","inputs":["x","gs://friend/y"],"params":{"a": "<"}}`), "")
	f.Add([]byte(`{"job_id":"a","pdf_path":"../x","bucket_name":"foreign"}`), "")
	f.Fuzz(func(t *testing.T, data []byte, traceparent string) {
		for _, rules := range []Rules{localRules, cloudRules} {
			job, err := rules.decode(data, map[string]string{"traceparent": traceparent})
			if errors.Is(err, errMalformed) {
				if !reflect.DeepEqual(job, jobs.Job{}) {
					t.Errorf("malformed message became %+v", job)
				}
				continue
			}
			if err == nil && checkJob(job) != nil {
				t.Errorf("decode(%q): %v", data, checkJob(job))
			}
			if err := wellFormed(rules, job); err != nil {
				t.Errorf("decode(%q) = %+v: %v", data, job, err)
			}
			if err != nil {
				continue
			}
			again, attributes := rules.encode(job)
			back, err := rules.decode(again, attributes)
			job.Submitted = job.Submitted.Truncate(time.Second)
			if y := job.Submitted.Year(); err != nil || !reflect.DeepEqual(back, job) && y > 0 && y <= 9999 {
				t.Errorf("%+v came back as %+v, %v", job, back, err)
			}
		}
	})
}

// wellFormed checks what every decoded job promises, also one that cannot run.
func wellFormed(rules Rules, job jobs.Job) error {
	if _, err := jobs.ParseID(string(job.ID)); err != nil {
		return err
	}
	if !kindPattern().MatchString(string(job.Kind)) || job.Pages < 0 || job.Pages > jobs.MaxPages {
		return fmt.Errorf("kind %q, %d pages", job.Kind, job.Pages)
	}
	if job.Trace != trace.Known(job.Trace) {
		return fmt.Errorf("trace %q", job.Trace)
	}
	name := job.Input
	if rest, ok := strings.CutPrefix(name, "gs://friend/"); ok && rules.Bucket != "" {
		name = rest
	}
	if name == "" {
		return nil
	}
	return storage.ValidName(name)
}
