package exec

import (
	"archive/zip"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

func TestG24ArchiveHasOutputThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	r := newRig(t, `printf 'a\377\376b'; echo text >&2`, Limits{})
	got := r.ok(request())
	if got.Stdout != "a\uFFFD\uFFFDb" || got.Stderr != "text\n" || got.StdoutTruncated {
		t.Errorf("stdout %q, stderr %q, truncated %v", got.Stdout, got.Stderr, got.StdoutTruncated)
	}
	wantFiles(t, got.OutputArchive, map[string]string{".grid/stdout": "a\xff\xfeb"})
}

func TestG65LongOutputKeepsBothEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, `i=0; while [ $i -lt 60000 ]; do echo "line $i"; i=$((i+1)); done`, Limits{})
	got := r.ok(request())
	whole := unzip(t, got.OutputArchive)[".grid/stdout"]
	if !strings.HasPrefix(whole, "line 0\nline 1\n") || !strings.HasSuffix(whole, "line 59999\n") || strings.Count(whole, "\n") != 60000 {
		t.Fatalf("the archive has %d bytes, %d lines", len(whole), strings.Count(whole, "\n"))
	}
	omitted := len(whole) - headBytes - tailBytes
	want := whole[:headBytes] + "\n[" + strconv.Itoa(omitted) + " bytes omitted]\n" + whole[len(whole)-tailBytes:]
	if got.Stdout != want || !got.StdoutTruncated || got.StderrTruncated {
		t.Errorf("stdout has %d bytes, truncated %v; want %d", len(got.Stdout), got.StdoutTruncated, len(want))
	}
}

func TestG65OutputLimitStopsProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t, `exec cat /dev/zero >&2`, Limits{Output: 1 << 20})
	got := r.fails(request(), wire.ReasonOutputLimit, "more than 1048576 bytes")
	if kept := unzip(t, got.OutputArchive)[".grid/stderr"]; len(kept) != 1<<20 || !got.StderrTruncated {
		t.Errorf("%d bytes of stderr were kept, want %d", len(kept), 1<<20)
	}
}

func TestG65EndlessLineTakesNoMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, `head -c 1000000000 /dev/zero | tr '\0' x >&2; echo done`, Limits{Output: 4 << 20, Truncate: true})
	got := r.ok(request())
	if got.Stdout != "done\n" || !got.StderrTruncated || len(got.Stderr) > headBytes+tailBytes+100 {
		t.Errorf("stdout %q, %d bytes of stderr", got.Stdout, len(got.Stderr))
	}
	if !strings.Contains(got.Stderr, "\n[999737856 bytes omitted]\n") {
		t.Errorf("stderr does not say how much is left out: %.200q", got.Stderr[headBytes-20:])
	}
}

func TestG68ArchiveHasNewAndChangedFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, `
echo changed > b; printf same > c; touch d; rm e
mkdir -p sub/deep empty; echo new > sub/deep/f; echo z > a.PNG; printf x > 'a\b'
ln -s /etc/passwd link; ln -s sub dirlink; mkfifo pipe; mkdir closed; echo x > closed/in; chmod 0 closed closed/in
echo temporary > "$TMPDIR/t"; echo mine > result.zip`, Limits{})
	q := request()
	for _, name := range []string{"b", "c", "d", "e"} {
		q.Files = append(q.Files, file(name, "same"))
	}
	got := r.ok(q)
	wantFiles(t, got.OutputArchive, map[string]string{
		"b": "changed\n", "sub/deep/f": "new\n", "a.PNG": "z\n", artifact.PortableName(`a\b`): "x", "closed/in": "x\n", "result.zip": "mine\n",
	})
	z, err := zip.NewReader(bytes.NewReader(got.OutputArchive), int64(len(got.OutputArchive)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		if want := f.Name == "a.PNG" || f.Name == "result.zip"; (f.Method == zip.Store) != want {
			t.Errorf("%s: stored %v, want %v", f.Name, !want, want)
		}
	}
	q.JobID = wire.NewGUID()
	if again := r.ok(q); !bytes.Equal(again.OutputArchive, got.OutputArchive) {
		t.Error("the same files have given another archive")
	}
	r.program("echo x > extra")
	r.ok(request())
	r.program("ls -A")
	if got := r.ok(request()); got.Stdout != ".grid\ncalcA.exe\n" {
		t.Errorf("the next job found %q", got.Stdout)
	}
	r.program("")
	if got := r.ok(q); got.OutputArchive != nil {
		t.Errorf("a program that leaves nothing has an archive of %d bytes", len(got.OutputArchive))
	}
}

func TestG68ArchivesHaveLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, script, want string }{
		{"files", "touch 1 2 3 4 5 6", "more than 5 files"},
		{"bytes", "truncate -s 1T sparse", "more than 1000 bytes"},
		{"directories", "mkdir 1 2 3 4 5 6", "more than 5 directories"},
		{"depth", `i=0; while [ $i -lt 70 ]; do mkdir d && cd -P d; i=$((i+1)); done`, "directories"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.script+"; printf '\\377'", Limits{ArchiveFiles: 5, ArchiveBytes: 1000})
			got := r.fails(request(), wire.ReasonOutputLimit, tt.want)
			wantFiles(t, got.OutputArchive, map[string]string{".grid/stdout": "\xff"})
		})
	}
}

func TestG07LargeArchivesAreStored(t *testing.T) {
	t.Parallel()
	script := `head -c "$1" /dev/urandom > out.png; head -c 60000 /dev/zero | tr '\0' '\1'`
	r := newRig(t, script, Limits{})
	got := r.fails(request("3200000"), wire.ReasonOutputLimit, "too large for a frame")
	if got.OutputArchive != nil || len(got.Artifacts) > 0 {
		t.Error("the result has files nevertheless")
	}
	var content []byte
	var name string
	r.Store = func(_ context.Context, path, as string) (wire.Blob, error) {
		var err error
		content, err = os.ReadFile(path)
		name = as
		return wire.Blob{Name: as, SHA256: strings.Repeat("a", 64), Size: int64(len(content))}, err
	}
	got = r.ok(request("3200000"))
	if got.OutputArchive != nil || len(got.Artifacts) != 1 || got.Artifacts[0].Name != name || name != "output.zip" {
		t.Errorf("artifacts %+v, %d bytes inline", got.Artifacts, len(got.OutputArchive))
	}
	if files := unzip(t, content); len(files["out.png"]) != 3200000 {
		t.Errorf("%d bytes were stored", len(files["out.png"]))
	}
	// Around the limit: what is inline always fits, with a text that grows sixfold.
	inline := 0
	for size := 2_800_000; size < 2_960_000; size += 20_000 {
		got := r.ok(request(strconv.Itoa(size)))
		text, err := Encode(&got)
		if err != nil || len(text) > MaxResult("clientA") {
			t.Fatalf("a result of %d bytes, at most %d: %v", len(text), MaxResult("clientA"), err)
		}
		if got.OutputArchive != nil {
			inline = max(inline, len(text))
		}
	}
	if inline < MaxResult("clientA")-40_000 {
		t.Errorf("the largest result has %d bytes, and %d would fit", inline, MaxResult("clientA"))
	}
	frame := wire.Frame{Subject: wire.ResultPrefix + "clientA." + wire.NewGUID().N(), Payload: make([]byte, MaxResult("clientA"))}
	if frame.Len() != wire.MaxFrame {
		t.Errorf("the largest result makes a frame of %d, want %d", frame.Len(), wire.MaxFrame)
	}
}

func TestG68HostileProgramReachesNoOtherFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, `rm input; ln -s "$1/secret" input; rm -r .grid; ln -s "$1" .grid; ln -sf /bin/sh calcA.exe; ln -s "$1" dir`, Limits{})
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret", 0o600)
	q := request(outside)
	q.Files = []wire.InputFile{file("input", "x")}
	if got := r.ok(q); got.OutputArchive != nil {
		t.Errorf("the archive has %q", unzip(t, got.OutputArchive))
	}
	if text, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(text) != "secret" {
		t.Errorf("the file outside is %q, %v", text, err)
	}
	r.program(`ls -A; ls -A "$TMPDIR"; touch "$TMPDIR/temporary"`)
	r.ok(request())
	if got := r.ok(request()); got.Stdout != ".grid\ncalcA.exe\n" {
		t.Errorf("the next job found %q", got.Stdout)
	}
}

func TestG68ProgramThatDestroysItsDirectoryFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, `rm -rf "$PWD"; echo done`, Limits{})
	if got := r.fails(request(), wire.ReasonError, "cannot be read"); got.Stdout != "done\n" {
		t.Errorf("stdout %q", got.Stdout)
	}
	r.program(`rm -rf "$PWD"; exit 7`)
	r.fails(request(), wire.ReasonExit, "exit status 7")
	r.program(`echo x > new; chmod 0 .`) // no obstacle to root
	wantFiles(t, r.ok(request()).OutputArchive, map[string]string{"new": "x\n"})
}

func TestG07OutputIsCutWithoutStorage(t *testing.T) {
	t.Parallel()
	r := newRig(t, `head -c 4000000 /dev/urandom; echo small > out; head -c "$1" /dev/urandom > large`, Limits{})
	got := r.ok(request("10"))
	if files := unzip(t, got.OutputArchive); len(files) != 2 || files["out"] != "small\n" || !got.StdoutTruncated {
		t.Errorf("the archive has %d files, truncated %v; want those that the program made", len(files), got.StdoutTruncated)
	}
	r.fails(request("4000000"), wire.ReasonOutputLimit, "too large for a frame")
}
