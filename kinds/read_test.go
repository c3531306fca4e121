package kinds

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const thumbnail = `
[thumbnail]
description = "first page as a PNG"
command  = ["pdftoppm", "-png", "-r", "{params.dpi}", "-f", "1", "-l", "1", "{input}", "{output}/page"]
outputs  = ["*.png"]                 # what must be there at the end
timeout  = "2m"
memory   = "1GiB"
cpu      = "90s"
disk     = 5_000_000
max_input = "500MB"
max_files = 3
slots    = 2
gpus     = 1
retries  = 3
backoff  = "1s..1h"
retry_exit = [4, 3]
final_exit = [2]
progress = '^page (\d+) of (\d+)'
oom      = '^no room for \d+ tensors$'
env      = ["HF_TOKEN"]
allow_dash = true
keep_log = true
checkpoint_max = "1MiB"
[thumbnail.params.dpi]
type = "integer"
default = 60
min = 10
max = 600

[plain]
command = ["true"]
`

func parse(t *testing.T, text string) *Set {
	t.Helper()
	set, err := Parse("kinds.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestReadGivesKindsInTheOrderOfTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kinds.toml")
	if err := os.WriteFile(file, []byte(thumbnail), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Kinds) != 2 || set.Kinds[0].Name != "thumbnail" || set.Kinds[1] != set.Get("plain") || set.Get("other") != nil {
		t.Fatalf("got %v", set.Kinds)
	}
	k := set.Kinds[0]
	for _, tt := range []struct {
		name string
		ok   bool
	}{
		{"description", k.Description == "first page as a PNG"},
		{"command", len(k.Command) == 10 && k.Command[3] == "{params.dpi}"},
		{"outputs", slices.Equal(k.Outputs, []string{"*.png"})},
		{"timeout", k.Timeout == 2*time.Minute},
		{"memory", k.Memory == 1<<30},
		{"cpu", k.CPU == 90*time.Second},
		{"disk", k.Disk == 5_000_000},
		{"max_input", k.MaxInput == 500_000_000},
		{"max_files", k.MaxFiles == 3},
		{"slots", k.Slots == 2},
		{"gpus", k.GPUs == 1},
		{"retries", k.Retries == 3},
		{"backoff", k.Backoff == time.Second && k.BackoffMax == time.Hour},
		{"retry_exit", slices.Equal(k.RetryExit, []int{3, 4, 75})},
		{"final_exit", slices.Equal(k.FinalExit, []int{2, 65})},
		{"progress", k.Progress.MatchString("page 1 of 2")},
		{"oom", k.OOM.MatchString("no room for 7 tensors")},
		{"env", slices.Equal(k.Env, []string{"HF_TOKEN"})},
		{"allow_dash, keep_log", k.AllowDash && k.KeepLog},
		{"checkpoint_max", k.Checkpoints == 1<<20},
		{"params", len(k.Params) == 1 && k.Params[0].Name == "dpi" && k.Params[0].Default == int64(60) && *k.Params[0].Min == 10 && *k.Params[0].Max == 600},
	} {
		if !tt.ok {
			t.Errorf("%s was read wrong: %+v", tt.name, k)
		}
	}
}

func TestDefaultsOfAKind(t *testing.T) {
	k := parse(t, thumbnail).Get("plain")
	if k.Disk != 10<<30 || k.MaxInput != 1<<30 || k.MaxFiles != 1000 || k.Backoff != 10*time.Second || k.BackoffMax != 10*time.Minute ||
		!slices.Equal(k.RetryExit, []int{75}) || !slices.Equal(k.FinalExit, []int{65}) || k.Retries != 0 || k.Timeout != 0 || k.Slots != 0 {
		t.Errorf("got %+v", k)
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	_, err := Parse("kinds.toml", []byte("[a]\ncommand = ['x', '{params.dpu}']\nretries = \"many\"\ntimeot = '1s'\n[a.params.dpi]\ntype = 'integer'\ndefault = 0\nmin = 1\n"))
	want := `kinds.toml:2:17: a.command has {params.dpu}, and there is no parameter dpu: do you mean dpi?
kinds.toml:3:11: a.retries is "many": want a whole number from 0 to 100
kinds.toml:4:1: a.timeot is no key of a kind: do you mean timeout?
kinds.toml:7:11: a.params.dpi.default is 0: must be at least 1`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestParamsBecomeArguments(t *testing.T) {
	k := parse(t, thumbnail).Get("thumbnail")
	params, err := k.CheckParams([]byte(`{"dpi": 3e2}`))
	if err != nil || string(params) != `{"dpi":300}` {
		t.Fatalf("got %s, %v", params, err)
	}
	argv, err := k.Argv(Values{Input: []string{"/w/in.pdf"}, Output: "/w/out", Param: params})
	if got := strings.Join(argv, " "); err != nil || got != "pdftoppm -png -r 300 -f 1 -l 1 /w/in.pdf /w/out/page" {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := k.CheckParams([]byte(`{"dpi": 7}`)); err == nil || err.Error() != "params.dpi is 7: must be from 10 to 600" {
		t.Errorf("got %v", err)
	}
}
