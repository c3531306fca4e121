package archive

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entry is what a test puts into an archive.
type entry struct {
	name string
	data string
	mode fs.FileMode
}

func file(name, data string) entry { return entry{name, data, 0o644} }

func pack(tb testing.TB, entries ...entry) []byte {
	tb.Helper()
	var to bytes.Buffer
	w := zip.NewWriter(&to)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(e.data))
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return to.Bytes()
}

// raw packs one file whose list tells another size.
func raw(tb testing.TB, h zip.FileHeader, data []byte) []byte {
	tb.Helper()
	var packed, to bytes.Buffer
	z, _ := flate.NewWriter(&packed, flate.BestCompression) // the level is valid
	_, _ = z.Write(data)                                    // into memory
	_ = z.Close()
	w := zip.NewWriter(&to)
	h.CRC32, h.CompressedSize64 = crc32.ChecksumIEEE(data), uint64(packed.Len())
	f, err := w.CreateRaw(&h)
	if err == nil {
		_, err = f.Write(packed.Bytes())
	}
	if err := errors.Join(err, w.Close()); err != nil {
		tb.Fatal(err)
	}
	return to.Bytes()
}

// tree returns the files below a directory, with their contents, and the directories.
func tree(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path) // both are absolute
		if name = filepath.ToSlash(name); d.IsDir() {
			all[name+"/"] = ""
			return nil
		}
		if !d.Type().IsRegular() {
			tb.Errorf("%s is %s", name, d.Type())
		}
		data, err := os.ReadFile(path)
		all[name] = string(data)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func extractInto(tb testing.TB, data []byte, dir string, l Limits) (int, error) {
	tb.Helper()
	return Extract(bytes.NewReader(data), int64(len(data)), dir, l)
}

func TestG70Extract(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	data := pack(t, file("result.txt", "42"), file("a/b/c.txt", ""), entry{"empty/", "", fs.ModeDir | 0o755}, file("a/d..e", "x"), file("結果.txt", "y"), entry{"run", "#!", 0o4755})
	n, err := extractInto(t, data, dir, Limits{})
	if err != nil || n != 5 {
		t.Fatalf("%d files, %v", n, err)
	}
	got := tree(t, dir)
	want := map[string]string{"result.txt": "42", "a/": "", "a/b/": "", "a/b/c.txt": "", "empty/": "", "a/d..e": "x", "結果.txt": "y", "run": "#!"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "run")); err != nil || info.Mode().Perm()&0o111 != 0 || info.Mode()&fs.ModeSetuid != 0 {
		t.Errorf("a file that came with rights has %v, %v", info.Mode(), err)
	}
}

func TestG70UnsafeArchivesAreRefused(t *testing.T) {
	huge := make([]byte, 20<<20)
	many := make([]entry, 11)
	deep := strings.Repeat("d/", 11) + "f"
	for i := range many {
		many[i] = file(fmt.Sprint(i), "")
	}
	tests := []struct {
		name string
		data []byte
		want string // a part of the error
	}{
		{"a name that leaves the directory", pack(t, file("ok", "1"), file("../evil", "x")), "leaves its directory"},
		{"such a name further down", pack(t, file("a/../../evil", "x")), "leaves its directory"},
		{"an absolute name", pack(t, file("/etc/evil", "x")), "begins with a slash"},
		{"a drive", pack(t, file("C:evil", "x")), "mean something else on Windows"},
		{"backslashes", pack(t, file(`..\evil`, "x")), "mean something else on Windows"},
		{"a device", pack(t, file("a/nul.txt", "x")), "a device on Windows"},
		{"a dot at the end", pack(t, file("a./b", "x")), "Windows leaves out"},
		{"a NUL", pack(t, file("a\x00b", "x")), "not for names"},
		{"a line end", pack(t, file("a\nb", "x")), "not for names"},
		{"letters from right to left", pack(t, file("a\u202egpj.exe", "x")), "not for names"},
		{"no UTF-8", pack(t, file("a\xff", "x")), "not for names"},
		{"no name", pack(t, file("", "x")), "is no name"},
		{"a long name", pack(t, file(strings.Repeat("x/", 600)+"x", "")), "at most 1024"},
		{"a long part", pack(t, file(strings.Repeat("x", 256), "")), "at most 255"},
		{"the same name", pack(t, file("a", "1"), file("a", "2")), "is there twice"},
		{"the same name in other letters", pack(t, file("Straße/A.txt", "1"), file("straße/a.TXT", "2")), "is there twice"},
		{"a K that is a Kelvin sign", pack(t, file("k", "1"), file("\u212a", "2")), "is there twice"},
		{"a file and a directory", pack(t, file("a", "1"), file("A/b", "2")), "is a file, too"},
		{"a directory and a file", pack(t, file("a/b", "1"), file("A", "2")), "is there twice"},
		{"a symbolic link", pack(t, entry{"link", "/etc", fs.ModeSymlink | 0o777}), "is no file and no directory"},
		{"a device file", pack(t, entry{"dev", "", fs.ModeDevice | 0o666}), "is no file and no directory"},
		{"a pipe", pack(t, entry{"pipe", "", fs.ModeNamedPipe | 0o666}), "is no file and no directory"},
		{"too many files", pack(t, many...), "at most 10"},
		{"too many directories", pack(t, file(deep, "")), "more than 10 files and directories"},
		{"a bomb", pack(t, file("zeros", string(huge))), "its files have more than"},
		{"a bomb of many files", pack(t, file("a", string(huge[:9<<20])), file("b", string(huge[:9<<20]))), "its files have more than"},
		{"a bomb whose list tells less", raw(t, zip.FileHeader{Name: "zeros", Method: zip.Deflate, UncompressedSize64: 10}, huge), "not a valid zip file"},
		{"a size of 2^64-1", raw(t, zip.FileHeader{Name: "x", Method: zip.Deflate, UncompressedSize64: 1<<64 - 1}, nil), "its files have more than"},
		{"a size that is too large", raw(t, zip.FileHeader{Name: "x", Method: zip.Deflate, UncompressedSize64: 10}, []byte("x")), "unexpected EOF"},
		{"another method", raw(t, zip.FileHeader{Name: "x", Method: 12}, nil), "method 12"},
		{"encrypted", raw(t, zip.FileHeader{Name: "x", Method: zip.Deflate, Flags: 1}, nil), "is encrypted"},
		{"no archive", []byte("no archive"), "not a valid zip file"},
		{"nothing", nil, "not a valid zip file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			above := t.TempDir()
			dir := filepath.Join(above, "out")
			n, err := extractInto(t, tt.data, dir, Limits{Files: 10})
			if err == nil || !strings.Contains(err.Error(), tt.want) || n != 0 {
				t.Errorf("%d files, %v; want %q", n, err, tt.want)
			}
			if got := tree(t, above); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
}

func TestG70HugeFileListIsRefused(t *testing.T) {
	var entries []entry
	for i := range 9000 {
		entries = append(entries, file(fmt.Sprintf("%0900d", i), ""))
	}
	_, err := extractInto(t, pack(t, entries...), filepath.Join(t.TempDir(), "out"), Limits{})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "its central directory") {
		t.Errorf("got %v", err)
	}
}

func TestG70DirectoryMustBeEmpty(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := extractInto(t, pack(t, file("a", "1")), dir, Limits{})
	if err == nil || !strings.Contains(err.Error(), "give a directory that is empty") {
		t.Errorf("got %v", err)
	}
	if got := tree(t, dir); len(got) != 1 || got["mine"] != "mine" {
		t.Errorf("got %q", got)
	}
	// An empty directory stays after an error, too: it was there before.
	dir = t.TempDir()
	if _, err := extractInto(t, raw(t, zip.FileHeader{Name: "a/b", Method: zip.Deflate, UncompressedSize64: 10}, []byte("x")), dir, Limits{}); err == nil {
		t.Error("there is no error")
	}
	if got := tree(t, dir); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	if _, err := extractInto(t, pack(t, file("a", "1")), dir, Limits{}); err != nil {
		t.Error(err)
	}
}

// FuzzF7Extract extracts any bytes: nothing comes to lie beside the directory, and no more than the limits in it.
func FuzzF7Extract(f *testing.F) {
	f.Add(pack(f, file("a/b", "x"), file("c", strings.Repeat("0", 5000)), entry{"d/", "", fs.ModeDir | 0o755}))
	f.Add(pack(f, file("../a", "x")))
	f.Add(pack(f, file("../../b", "x"), entry{"l", "/etc", fs.ModeSymlink | 0o777}, file("l/passwd", "x")))
	f.Add(raw(f, zip.FileHeader{Name: "x", Method: zip.Deflate, UncompressedSize64: 10}, make([]byte, 5000)))
	l := Limits{Files: 20, Bytes: 4000}
	f.Fuzz(func(t *testing.T, data []byte) {
		above := t.TempDir()
		dir := filepath.Join(above, "out")
		n, err := extractInto(t, data, dir, l)
		all := tree(t, above)
		if err != nil {
			if len(all) != 0 {
				t.Fatalf("%v, and left: %q", err, all)
			}
			return
		}
		files, bytes := 0, int64(0)
		for name, text := range all {
			if name != "out/" && !strings.HasPrefix(name, "out/") {
				t.Errorf("%q is beside the directory", name)
			}
			if !strings.HasSuffix(name, "/") {
				files++
				bytes += int64(len(text))
			}
		}
		if files != n || len(all)-1 > l.Files || bytes > l.Bytes {
			t.Errorf("%d files of %d, %d bytes", files, n, bytes)
		}
	})
}
