package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// devParams is a kind that shows its parameters.
const devParams = `
[show]
command = ["sh", "-c", "cat >{output}/params.json; tail -c 2 \"$1\" >{output}/end", "sh", "{input}"]
[show.params.dpi]
type = "integer"
default = 60
min = 10
max = 600
[show.params.note]
type = "string"
`

func TestK20DevTakesParamsAsSubmitDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	kinds, file, params := write("kinds.toml", devParams), write("a.txt", "12345"), write("params.json", `{"dpi": 70, "note": "from a file"}`)
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"a flag, and defaults", `{"dpi":60,"note":"a \"b\" $c"}`, []string{"--param", `note=a "b" $c`}},
		{"a file, and a flag in place of what is there", `{"dpi":300,"note":"from a file"}`, []string{"--params", params, "--param", "dpi=300"}},
		{"none", `{"dpi":60}`, nil},
	} {
		args := append([]string{"dev", "--json", "--slots", "1", "--kinds", kinds}, tt.args...)
		code, job, artifacts := dev(t, batchfleet(t, nil, append(args, file)...))
		got, err := os.ReadFile(filepath.Join(artifacts, "params.json"))
		if code != 0 || job.Status != "succeeded" || err != nil || string(got) != tt.want {
			t.Errorf("%s: exit code %d, %+v, params %q, %v; want %q", tt.name, code, job, got, err, tt.want)
		}
	}
}

func TestK20DevSaysWhatIsWrongWithParamsBeforeItStarts(t *testing.T) {
	t.Parallel()
	c := &commands{testFleet: &testFleet{t: t}, dir: t.TempDir(), env: []string{"PATH=" + os.Getenv("PATH"), "LOCAL_STORAGE_PATH=" + filepath.Join(t.TempDir(), "storage")}}
	kinds, file := c.write("kinds.toml", devParams), c.write("a.txt", "12345")
	for _, tt := range []struct {
		says string
		args []string
	}{
		{"params.dpi is 7: must be from 10 to 600", []string{"--kinds", kinds, "--param", "dpi=7", file}},
		{"params.dip", []string{"--kinds", kinds, "--param", "dip=70", file}},
		{`--param is "dpi": want NAME=VALUE`, []string{"--kinds", kinds, "--param", "dpi", file}},
		{"--params: open ", []string{"--kinds", kinds, "--params", filepath.Join(c.dir, "none.json"), file}},
		{"--params: documents have none", []string{"--kinds", kinds, "--kind", "pdf", "--param", "dpi=70", file}},
		{"are for jobs of a FILE", []string{"--kinds", kinds, "--param", "dpi=70"}},
	} {
		c.run(2, tt.says, append([]string{"dev"}, tt.args...)...)
	}
	if _, err := os.Stat(strings.TrimPrefix(c.env[1], "LOCAL_STORAGE_PATH=")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a fleet was started: its storage is there (%v)", err)
	}
}
