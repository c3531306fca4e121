package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// examplePrograms are what the kinds of the examples need.
var examplePrograms = map[string]string{
	"pdftoppm": "poppler-utils", "ffmpeg": "ffmpeg", "ffprobe": "ffmpeg", "povray": "povray", "tesseract": "tesseract-ocr tesseract-ocr-eng", "python3": "python3",
	"csound": "csound",
}

// examples runs kinds of the examples. Where programs are missing, the test is
// skipped, but in CI fails.
func examples(t *testing.T) {
	t.Helper()
	testrun.Long(t, "it runs large programs")
	testrun.Once(t, "the work is done by programs of others")
	for name, pack := range examplePrograms {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%v: install %s", err, pack)
			}
			t.Skipf("%v", err)
		}
	}
}

// devJob is what dev prints of a job with --json.
type devJob struct {
	ID     string `json:"jobId"`
	Status string
	Error  struct{ Message string }
}

// dev runs a program with dev, as a user does, and returns its exit code, how the job has ended, and
// the directory of its artifacts.
func dev(t *testing.T, c *exec.Cmd) (code int, job devJob, artifacts string) {
	t.Helper()
	store := t.TempDir()
	c.Env = append(c.Env, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "LOCAL_STORAGE_PATH="+store, "WORK_DIR="+t.TempDir())
	code, out, errs := output(t, c)
	if err := json.Unmarshal([]byte(out), &job); err != nil {
		t.Fatalf("exit code %d, %v:\n%s\n%s", code, err, out, errs)
	}
	return code, job, filepath.Join(store, "results", job.ID, "artifacts")
}

// example runs a kind of the examples.
func example(t *testing.T, kind, file string) (code int, job devJob, artifacts string) {
	t.Helper()
	kinds, err := filepath.Abs("../examples/kinds.toml")
	if err != nil {
		t.Fatal(err)
	}
	if file, err = filepath.Abs(file); err != nil {
		t.Fatal(err)
	}
	return dev(t, batchfleet(t, []string{"WORKER_GPUS=0,1"}, "dev", "--json", "--slots", "1", "--kinds", kinds, "--kind", kind, file))
}

func TestK16K20ExamplesMakeWhatTheySay(t *testing.T) {
	examples(t)
	t.Parallel()
	for _, tt := range []struct {
		name, kind, file string
		want             []string
		check            func(t *testing.T, dir string)
	}{
		{"a thumbnail has the size of the page at 60 dpi", "thumbnail", "../examples/thumbnail/sample.pdf", []string{"page-1.png"}, picture("page-1.png", 250, 167)},
		{"a panorama has the size of the params", "panorama", "../examples/panorama/scene.pov", []string{"panorama.png"}, picture("panorama.png", 400, 200)},
		{"a video is a WebM with its sound, and 240 lines high", "transcode", "../examples/transcode/sample.mp4", []string{"video.webm"}, video},
		{"the words of scanned pages are found, in the order of the pages", "ocr", "../examples/ocr/scanned.pdf", []string{"text.txt"}, scanned},
		{"the longest line is found", "longest-line", "testdata/lines.txt", []string{"longest.json"}, longestLine},
		{"each line has a vector of 64 numbers and length 1", "embed", "testdata/lines.txt", []string{"vectors.jsonl"}, vectors},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, job, dir := example(t, tt.kind, tt.file)
			if code != 0 || job.Status != "succeeded" {
				t.Fatalf("exit code %d, %+v", code, job)
			}
			var names []string
			entries, err := os.ReadDir(dir)
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if err != nil || !slices.Equal(names, tt.want) {
				t.Fatalf("there is %q (%v), want %q", names, err, tt.want)
			}
			tt.check(t, dir)
		})
	}
}

func TestK20ExamplesSayWhatIsWrongWithTheirInput(t *testing.T) {
	examples(t)
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, binary := file("a.txt", "no document\n"), file("binary.txt", "\xff\xfe\x00")
	for _, tt := range []struct{ name, kind, file, want string }{
		{"a text is no document with pages to show", "thumbnail", text, "exit 1: Syntax Error: Couldn't read xref table"},
		{"nor one to read", "ocr", text, "exit 65: Syntax Error: Couldn't read xref table"},
		{"a text is no video", "transcode", text, "Invalid data found when processing input"},
		{"a scene has a mistake", "panorama", file("scene.pov", "sphere { <0, 0, 0>, 1 pigment { rgb 1\n"), "exit 65: File 'scene.pov' line 1: Parse Error: No matching }"},
		{"bytes are no text", "embed", binary, "exit 65: the input is no text: 'utf-8' codec can't decode byte 0xff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, job, artifacts := example(t, tt.kind, tt.file)
			if code != 1 || job.Status != "failed" || !strings.Contains(job.Error.Message, tt.want) {
				t.Errorf("exit code %d, %+v; want failed, %q", code, job, tt.want)
			}
			if _, err := os.Stat(artifacts); !os.IsNotExist(err) {
				t.Errorf("it has artifacts: %v", err)
			}
		})
	}
}

// TestK20PanoramaSaysHowPOVRayEnded, also if it has said nothing.
func TestK20PanoramaSaysHowPOVRayEnded(t *testing.T) {
	script, err := filepath.Abs("../examples/panorama/render.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "povray"), []byte("#!/bin/sh\nexit 7\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), script, "in.pov", "out.png", "40", "20")
	c.Dir, c.Env = t.TempDir(), []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	code, out, errs := output(t, c)
	if code != 1 || errs != "povray has ended with exit code 7\n" {
		t.Errorf("exit code %d, want 1 and how it ended:\n%s%s", code, out, errs)
	}
}

// wordcount builds the program of examples/wordcount.
func wordcount(t *testing.T) (binary string) {
	t.Helper()
	testrun.Long(t, "it builds a program")
	testrun.Once(t, "it is a program of its own")
	binary = filepath.Join(t.TempDir(), "wordcount")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Dir = "../examples/wordcount"
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off") // go.sum has all of it
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// TestK15WordcountIsBuiltAndRuns: a module of its own is a program with our commands and its kind.
func TestK15WordcountIsBuiltAndRuns(t *testing.T) {
	t.Parallel()
	binary := wordcount(t)
	run := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), binary, args...)
		c.Dir = t.TempDir()
		return c
	}
	lines, err := filepath.Abs("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	code, job, dir := dev(t, run("dev", "--json", "--kind", "wordcount", lines))
	if code != 0 || job.Status != "succeeded" {
		t.Fatalf("exit code %d, %+v", code, job)
	}
	var counts map[string]int
	if decode(t, filepath.Join(dir, "words.json"), &counts); counts["line"] != 3 || counts["the"] != 2 {
		t.Errorf("the words are %v", counts)
	}
	if code, out, errs := output(t, run("kinds")); code != 0 || !strings.Contains(out, "wordcount") || errs != "" {
		t.Errorf("kinds: exit code %d\n%s%s", code, out, errs)
	}
}

// picture checks that an artifact is a PNG of that size.
func picture(name string, width, height int) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		image, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if size := image.Bounds().Size(); size.X != width || size.Y != height {
			t.Errorf("the picture is %s, want %d by %d", size, width, height)
		}
	}
}

func video(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-show_entries", "stream=codec_type,height:format=format_name", "-of", "csv", filepath.Join(dir, "video.webm")).CombinedOutput()
	if err != nil {
		t.Fatalf("ffprobe: %v\n%s", err, out)
	}
	for _, want := range []string{"stream,video,240", "stream,audio", "webm"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("ffprobe finds no %q:\n%s", want, out)
		}
	}
}

func scanned(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "text.txt"))
	if err != nil {
		t.Fatal(err)
	}
	rest := string(data)
	for _, want := range []string{"On the Care of Slow Machines", "regular work in small pieces", "Shift Hours", "Before the lights go out"} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is missing, or before the text that should precede it:\n%s", want, data)
		}
		rest = after
	}
}

func longestLine(t *testing.T, dir string) {
	t.Helper()
	var got struct {
		Line, Characters int
		Text             string
	}
	if decode(t, filepath.Join(dir, "longest.json"), &got); got.Line != 2 || got.Characters != len(got.Text) || got.Text != "the second line is the longest" {
		t.Errorf("got %+v", got)
	}
}

func vectors(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "vectors.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for scan := bufio.NewScanner(f); scan.Scan(); n++ {
		var one struct {
			Text   string
			Vector []float64
		}
		if err := json.Unmarshal(scan.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, x := range one.Vector {
			sum += x * x
		}
		if len(one.Vector) != 64 || math.Abs(sum-1) > 1e-4 {
			t.Errorf("the vector of %q has %d numbers and length %f", one.Text, len(one.Vector), math.Sqrt(sum))
		}
	}
	if n != 3 {
		t.Errorf("there are %d vectors, want 3", n)
	}
}

// decode reads a file of JSON.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
