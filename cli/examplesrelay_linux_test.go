package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	programoutput "github.com/batchfleet/batchfleet/processor/output"
)

// hostilePrompt has what shells, filters, formats and options are made of. Each of its lines has the mark.
const (
	promptMark    = "Xyzzy"
	hostilePrompt = "-i Xyzzy 'it' \"is\" $(touch pwned) `touch pwned` ; | & > pwned %s %{pts} %{eif:1/0:d}\n" +
		"::progress 9/9 Xyzzy\r\n\\n\\' Xyzzy {params} {{ :expansion=normal,movie=/etc/passwd[in];\n" +
		"#include \"Xyzzy\" </CsScore> \x1b[2J \u202e 漢字 Xyzzy\u2028 😀 e\u0301"
)

// theRelayKinds are those of examples/relay/kinds.toml, each with small work for it.
var theRelayKinds = []struct {
	kind, options string
	artifacts     []string // the first has the content
	check         func(t *testing.T, dir string)
}{
	{"motion", `"width": 96, "height": 64, "fps": 10, "duration": 0.6`, []string{"motion.mp4", "preview.png"}, func(t *testing.T, dir string) {
		t.Helper()
		probe(t, filepath.Join(dir, "motion.mp4"), "stream=codec_name,width,height,pix_fmt,r_frame_rate,nb_read_frames:format=duration",
			"codec_name=h264", "width=96", "height=64", "pix_fmt=yuv420p", "r_frame_rate=10/1", "nb_read_frames=6", "duration=0.6")
		picture("preview.png", 96, 64)(t, dir)
	}},
	{"scene", `"width": 64`, []string{"panorama.png"}, picture("panorama.png", 64, 32)},
	{"music", `"duration": 0.75`, []string{"music.ogg"}, func(t *testing.T, dir string) {
		t.Helper()
		probe(t, filepath.Join(dir, "music.ogg"), "stream=codec_name,channels:format=format_name,duration", "codec_name=vorbis", "channels=2", "format_name=ogg", "duration=0.75")
	}},
}

// probe checks that ffprobe finds all this in a file: each text begins a line.
func probe(t *testing.T, file, entries string, want ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-count_frames", "-show_entries", entries, "-of", "default=noprint_wrappers=1", file).CombinedOutput()
	if err != nil {
		t.Fatalf("ffprobe: %v\n%s", err, out)
	}
	for _, line := range want {
		if !strings.Contains("\n"+string(out), "\n"+line) {
			t.Errorf("ffprobe finds no %q:\n%s", line, out)
		}
	}
}

// content returns a hash of the frames or samples in a file.
func content(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-i", file, "-f", "md5", "-").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "MD5=") {
		t.Fatalf("ffmpeg: %v\n%s", err, out)
	}
	return string(out)
}

// recorded puts programs before the real ones on the PATH that note their arguments in a file.
func recorded(t *testing.T, programs ...string) (path, file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "arguments")
	for _, name := range programs {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		script := fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >>%s\nexec %s \"$@\"\n", name, file, program)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	return dir + ":" + os.Getenv("PATH"), file
}

// TestK20RelayKindsMakeWhatTheySay of a prompt that would be a mistake, a file or a command wherever it is taken for
// more than a text. The same params make the same; neither logs nor arguments have the prompt.
func TestK20RelayKindsMakeWhatTheySay(t *testing.T) {
	examples(t)
	t.Parallel()
	file, err := filepath.Abs("../examples/relay/kinds.toml")
	if err != nil {
		t.Fatal(err)
	}
	c := newCommands(t)
	c.env = c.environment("KINDS_FILE=" + file)
	path, arguments := recorded(t, "python3", "ffmpeg", "povray", "csound")
	worker := c.start("KINDS_FILE="+file, "PATH="+path, "WORKER_SLOTS=3")
	prompt, err := json.Marshal(hostilePrompt)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("kinds", func(t *testing.T) {
		for _, k := range theRelayKinds {
			t.Run(k.kind, func(t *testing.T) {
				t.Parallel()
				made := map[string]string{}
				for run, seed := range map[string]int{"first": 1, "again": 1, "other": 2} {
					id, dir, params := k.kind+"-"+run, t.TempDir(), filepath.Join(t.TempDir(), "params.json")
					if err := os.WriteFile(params, fmt.Appendf(nil, `{"prompt": %s, "seed": %d, %s}`, prompt, seed, k.options), 0o600); err != nil {
						t.Fatal(err)
					}
					_, out, errs := output(t, batchfleet(t, c.env, "submit", "--kind", k.kind, "--id", id, "--params", params, "--wait", "--timeout", "2m", "-o", dir))
					_, log, _ := output(t, batchfleet(t, c.env, "logs", id))
					for _, name := range k.artifacts {
						if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
							t.Fatalf("%s: %v\n%s%s%s", run, err, out, errs, log)
						}
					}
					k.check(t, dir)
					if all := out + errs + log; strings.Contains(all, promptMark) {
						t.Errorf("%s: the prompt is shown:\n%s", run, all)
					}
					made[run] = content(t, filepath.Join(dir, k.artifacts[0]))
				}
				if made["first"] != made["again"] || made["first"] == made["other"] {
					t.Errorf("got %v, want the same of the same seed, and something else of another", made)
				}
			})
		}
	})
	if log := worker.log.String(); strings.Contains(log, promptMark) {
		t.Errorf("the worker has logged the prompt:\n%s", log)
	}
	started, err := os.ReadFile(arguments)
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]int{"python3 ": 9, "ffmpeg ": 9, "povray ": 3, "csound ": 3} {
		if n := strings.Count("\n"+string(started), "\n"+program); n != want {
			t.Errorf("%swas started %d times, want %d", program, n, want)
		}
	}
	if strings.Contains(string(started), promptMark) {
		t.Errorf("the prompt is in an argument:\n%s", started)
	}
}

// relayScript runs a program of a relay's kinds without a worker.
func relayScript(t *testing.T, name, input string, params map[string]any) (code int, stdout, stderr, dir string) {
	t.Helper()
	script, err := filepath.Abs("../examples/relay/" + name)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"prompt": "a", "seed": 1, "fps": 5, "duration": 0.6, "width": 96, "height": 64}
	maps.Copy(all, params)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	file := filepath.Join(t.TempDir(), "params.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), script, file, dir)
	c.Dir, c.Env = t.TempDir(), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BATCHFLEET_INPUT=" + input}
	code, stdout, stderr = output(t, c)
	return code, stdout, stderr, dir
}

// assets writes files into a directory and returns it. An empty text is a picture.
func assets(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if text == "" {
			err = png.Encode(f, image.NewGray(image.Rect(0, 0, 30, 20)))
		} else {
			_, err = f.WriteString(text)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestK20MotionShowsItsPromptAsItIs over a picture that is the same for all prompts.
func TestK20MotionShowsItsPromptAsItIs(t *testing.T) {
	examples(t)
	t.Parallel()
	const name = "a:%d'[x].png"
	picture := filepath.Join(assets(t, map[string]string{name: ""}), name)
	shown := map[string]string{}
	for _, prompt := range []string{" \n ", "2", "%{eif:1+1:d}", `\2`, "-2", "2\n2", "pwned", "漢", strings.Repeat("漢字 ab\n", 1638)} {
		code, _, stderr, dir := relayScript(t, "motion.py", picture, map[string]any{"prompt": prompt})
		if code != 0 || stderr != "" {
			t.Fatalf("%.20q: exit code %d: %s", prompt, code, stderr)
		}
		sum := content(t, filepath.Join(dir, "motion.mp4"))
		if other, ok := shown[sum]; ok {
			t.Errorf("%.20q and %.20q look the same", prompt, other)
		}
		shown[sum] = prompt
	}
}

func TestK20RelayKindsSayWhatIsWrongWithTheirInput(t *testing.T) {
	examples(t)
	t.Parallel()
	one := func(text string) string { return filepath.Join(assets(t, map[string]string{"a.png": text}), "a.png") }
	noPicture := "the first asset is no picture in PNG, JPEG or WebP\n"
	for _, tt := range []struct {
		name, script, input string
		params              map[string]any
		code                int
		want                string
	}{
		{"an asset is the background", "motion.py", one(""), nil, 0, ""},
		{"of several it is the first by name", "motion.py", assets(t, map[string]string{"a.png": "", "b.txt": "text"}), nil, 0, ""},
		{"which may be none", "motion.py", assets(t, map[string]string{"b.png": "", "a.txt": "text"}), nil, 65, noPicture},
		{"a list of files is not followed", "motion.py", one("#EXTM3U\n#EXTINF:1,\n/etc/hostname\n"), nil, 65, noPicture},
		{"a picture that breaks off", "motion.py", one("\x89PNG\r\n\x1a\n\x00\x00"), nil, 1, "Cannot determine format of input stream"},
		{"a sound that begins as WebP does", "motion.py", one("RIFF\x24\x00\x00\x00WAVEfmt "), nil, 1, "Cannot determine format of input stream"},
		{"H.264 has even sizes", "motion.py", "", map[string]any{"width": 97}, 65, "width and height must be even\n"},
		{"and so has a picture twice as wide as high", "scene.py", "", map[string]any{"width": 63}, 65, "width must be even\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr, _ := relayScript(t, tt.script, tt.input, tt.params)
			if code != tt.code || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d: %s; want %d, %q", code, stderr, tt.code, tt.want)
			}
		})
	}
}

// TestK20RelayKindsTellTheirProgress: a worker finds it in lines that their programs print.
func TestK20RelayKindsTellTheirProgress(t *testing.T) {
	examples(t)
	t.Parallel()
	set, err := kinds.Read("../examples/relay/kinds.toml")
	if err != nil {
		t.Fatal(err)
	}
	for kind, least := range map[jobs.Kind]int{"motion": 1, "scene": 1, "music": 10} { // lines
		code, stdout, stderr, _ := relayScript(t, string(kind)+".py", "", nil)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", kind, code, stderr)
		}
		var told []int // in percent
		for _, line := range strings.FieldsFunc(stdout+stderr, func(c rune) bool { return c == '\r' || c == '\n' }) {
			r := programoutput.Reader{Log: func(string) {}, Progress: func(p jobs.Progress) { told = append(told, p.Percent()) }, Pattern: set.Get(kind).Progress}
			if err := errors.Join(r.Line(command.Stdout, []byte(line), false), r.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if len(told) < least || !slices.IsSorted(told) || told[len(told)-1] < 97 {
			t.Errorf("%s: the progress is %v, want at least %d lines, up to the end", kind, told, least)
		}
	}
}
