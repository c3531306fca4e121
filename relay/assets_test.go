package relay

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// assetsRig is a relay with one root of assets, and files around it.
func assetsRig(t *testing.T) (r *rig, root string) {
	t.Helper()
	dir := t.TempDir()
	root = filepath.Join(dir, "assets")
	for path, text := range map[string]string{
		"assets/input.png": "png", "assets/sub/other.png": "other", "assets/with blank.png": "blank", "assets/50%.png": "percent", "assets/é.png": "accent",
		"assets/con.txt": "device", "assets/a%2fb": "once", "assets/large": strings.Repeat("x", 1001), "assets/request.json": "own name", "secret": "canary", "assets-2/x.png": "canary",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link-out": "../secret", "link-abs": filepath.Join(dir, "secret"), "dir-out": "..", "link-in": "input.png", "loop": "loop", "device": "/dev/zero"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	r = setup(t, testrun.MemoryDir(t))
	r.Assets = Assets{Roots: []string{root}, MaxBytes: 1000}
	return r.open(), root
}

func TestR73AssetsAreCopied(t *testing.T) {
	r, root := assetsRig(t)
	for _, tt := range []struct {
		name        string
		urls, names []string // of the copies
		content     string   // of all of them
	}{
		{"a file", []string{"file://ROOT/input.png"}, []string{"input.png"}, "png"},
		{"with a host", []string{"file://localhostROOT/sub/other.png"}, []string{"other.png"}, "other"},
		{"escaped", []string{"file://ROOT/with%20blank.png"}, []string{"asset-1.png"}, "blank"},
		{"a percent sign", []string{"file://ROOT/50%25.png"}, []string{"asset-1.png"}, "percent"},
		{"decoded once", []string{"file://ROOT/a%252fb"}, []string{"asset-1"}, "once"},
		{"not ASCII", []string{"file://ROOT/%C3%A9.png"}, []string{"asset-1.png"}, "accent"},
		{"slashes", []string{"file://ROOT//sub///other.png"}, []string{"other.png"}, "other"},
		{"a link that stays inside", []string{"file://ROOT/link-in"}, []string{"link-in"}, "png"},
		{"the name of a device", []string{"file://ROOT/con.txt"}, []string{"asset-1.txt"}, "device"},
		{"the name of the request", []string{"file://ROOT/request.json"}, []string{"asset-1.json"}, "own name"},
		{"twice", []string{"file://ROOT/input.png", "file://ROOT/input.png"}, []string{"input.png", "asset-2.png"}, "pngpng"},
	} {
		var quoted []string
		for _, u := range tt.urls {
			quoted = append(quoted, fmt.Sprintf("%q", strings.ReplaceAll(u, "ROOT", root)))
		}
		id := r.create(`{"job_id":"a","kind":"music","input":{"assets":[` + strings.Join(quoted, ",") + `]}}`)
		h := r.start()
		content := ""
		for i, name := range tt.names {
			path := r.tasks.dir.of(id, inputDir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			content += string(text)
			if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s: %v, %v", tt.name, info, err)
			}
			if h.lease.Job.Inputs[i] != string(id)+"/input/"+name {
				t.Errorf("%s: its program is given %v", tt.name, h.lease.Job.Inputs)
			}
		}
		if content != tt.content || !slices.Equal(r.onDisk(id).Assets, tt.names) {
			t.Errorf("%s: copied %q as %v", tt.name, content, r.onDisk(id).Assets)
		}
	}
}

func TestR73WhatIsNoAssetIsRefused(t *testing.T) {
	r, root := assetsRig(t)
	fifo(t, filepath.Join(root, "fifo"))
	for name, url := range map[string]string{
		"not there":               "file://ROOT/none.png",
		"above":                   "file://ROOT/../secret",
		"above, escaped":          "file://ROOT/%2e%2e/secret",
		"above, half escaped":     "file://ROOT/.%2E/secret",
		"above, escaped slash":    "file://ROOT%2f..%2fsecret",
		"above, escaped twice":    "file://ROOT/%252e%252e/secret",
		"above and back":          "file://ROOT/sub/../input.png",
		"a dot":                   "file://ROOT/./input.png",
		"a neighbour of the root": "file://ROOT-2/x.png",
		"the root":                "file://ROOT",
		"the root, slash":         "file://ROOT/",
		"a directory":             "file://ROOT/sub",
		"a pipe":                  "file://ROOT/fifo",
		"a device":                "file://ROOT/device",
		"a link out":              "file://ROOT/link-out",
		"an absolute link out":    "file://ROOT/link-abs",
		"a directory link out":    "file://ROOT/dir-out/secret",
		"a loop of links":         "file://ROOT/loop",
		"elsewhere":               "file:///etc/passwd",
		"a device elsewhere":      "file:///dev/zero",
		"too large":               "file://ROOT/large",
		"a host":                  "file://example.comROOT/input.png",
		"an address":              "file://127.0.0.1ROOT/input.png",
		"a host in capitals":      "file://LOCALHOSTROOT/input.png",
		"a port":                  "file://localhost:80ROOT/input.png",
		"a user":                  "file://u:canary@localhostROOT/input.png",
		"a query":                 "file://ROOT/input.png?canary",
		"an empty query":          "file://ROOT/input.png?",
		"a fragment":              "file://ROOT/input.png#canary",
		"a share":                 `file:///\\server\share\x`,
		"a share, escaped":        "file:///%5C%5Cserver%5Cshare",
		"a share, by slashes":     "file:////server/share/x",
		"a backslash":             `file://ROOT\input.png`,
		"a drive":                 "file:///C:/x.png",
		"a drive, old form":       "file:///C|/x.png",
		"a drive as the host":     "file://C:/x.png",
		"NUL":                     "file://ROOT/input.png%00",
		"NUL as it is":            "file://ROOT/input.png\x00",
		"no scheme":               "ROOT/input.png",
		"one slash":               "file:ROOT/input.png",
		"two slashes":             "file://input.png",
		"https":                   "https://example.com/canary.png",
		"scheme in capitals":      "FILE://ROOT/input.png",
		"bad escape":              "file://ROOT/%zz.png",
		"half an escape":          "file://ROOT/input.png%",
		"empty":                   "",
		"blank":                   " file://ROOT/input.png",
		"4097 bytes":              "file://ROOT/" + strings.Repeat("a", maxAsset),
		"a name that is too long": "file://ROOT/" + strings.Repeat("a", 1000),
		"invalid UTF-8":           "file://ROOT/%ff%fe",
	} {
		url = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(url, "ROOT", root), `\`, `\\`), "\x00", `\u0000`)
		resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"a","kind":"music","input":{"assets":["file://`+root+`/input.png","`+url+`"]}}`)
		if resp.Status != http.StatusBadRequest || resp.field() != "input.assets[1]" {
			t.Errorf("%s: %d, field %s: %s", name, resp.Status, resp.field(), resp.Body)
		}
		if strings.Contains(resp.Body, "canary") || strings.Contains(resp.Body, root) {
			t.Errorf("%s: it is told %s", name, resp.Body)
		}
	}
	if r.tasks.count(Queued) != 0 {
		t.Errorf("%d tasks were made", r.tasks.count(Queued))
	}
	for _, dir := range []string{tmpDir, tasksDir} {
		entries, err := os.ReadDir(filepath.Join(r.Dir, dir))
		if err != nil || len(slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == quarantineDir })) != 0 {
			t.Errorf("%s/ has %v, %v", dir, entries, err)
		}
	}
}

func TestR73AllAssetsTogetherHaveALimit(t *testing.T) {
	r, root := assetsRig(t)
	for name, size := range map[string]int{"a": 400, "b": 600, "c": 601} {
		if err := os.WriteFile(filepath.Join(root, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.create(`{"job_id":"a","kind":"music","input":{"assets":["file://` + root + `/a","file://` + root + `/b"]}}`)
	resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"a","kind":"music","input":{"assets":["file://`+root+`/a","file://`+root+`/c"]}}`)
	if resp.Status != http.StatusBadRequest || resp.field() != "input.assets[1]" || !strings.Contains(resp.Body, "1000 bytes") {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
}

// A file under /proc changes as it is read: its size says 0.
func TestR73AFileThatChangesWhileItIsCopiedIsRefused(t *testing.T) {
	const proc = "/proc/self"
	if _, err := os.Stat(proc + "/stat"); err != nil {
		t.Skip("there is no /proc")
	}
	r := setup(t, testrun.MemoryDir(t))
	r.Assets = Assets{Roots: []string{proc}, MaxBytes: 1 << 20}
	r.open()
	resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"a","kind":"music","input":{"assets":["file:///proc/self/stat"]}}`)
	if resp.Status != http.StatusBadRequest || !strings.Contains(resp.Body, "changed while it was copied") {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
}

// No URL leads out of the roots, and the names of copies can be used.
func FuzzR73AssetURLs(f *testing.F) {
	for _, seed := range []string{
		"file:///srv/assets/a.png", "file:///srv/assets/%2e%2e/x", "file:///srv/assets/..%2fx", "file:///srv/assets//..//x", "file://localhost/srv/assets/a", "file:///srv/assets2/x",
		"file:///srv/assets/%252e", `file:///srv/assets\..\x`, "file:///C:/x", "file:////server/share", "file:///srv/assets/\x00", "file:///srv/assets/con.txt", "file:///srv/./assets/a",
	} {
		f.Add(seed, seed)
	}
	a := &Assets{Roots: []string{"/srv/assets", "/data"}}
	f.Fuzz(func(t *testing.T, first, second string) {
		all, err := a.check([]string{first, second})
		if err != nil {
			return
		}
		for _, one := range all {
			full := filepath.Join(one.root, one.path)
			if !slices.Contains(a.Roots, one.root) || !filepath.IsLocal(one.path) || !strings.HasPrefix(full, one.root+"/") || strings.ContainsRune(full, 0) {
				t.Errorf("%q leads to %q in %q", first, one.path, one.root)
			}
			if !validName(one.name) {
				t.Errorf("%q is copied as %q", first, one.name)
			}
		}
		if all[0].name == all[1].name || all[0].name == requestFile || all[1].name == requestFile {
			t.Errorf("%q and %q are both copied as %q", first, second, all[0].name)
		}
	})
}
