package program_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

func TestR47OutputsAreStoredUnderNamesThatEverySystemCanHave(t *testing.T) {
	r := open(t, `cd "$1"; echo film >结果.mp4; echo plain >plain.mp4; echo con >CON.mp4; echo no >other.txt`, `outputs = ["结果.*", "*.mp4"]`, "{output}")
	r.handler.Rename = true
	result := r.must(jobs.Job{ID: "j"})
	film, con := artifact.PortableName("结果.mp4"), artifact.PortableName("CON.mp4")
	want := map[string]string{film: "film\n", con: "con\n", "plain.mp4": "plain\n"}
	for _, a := range result.Artifacts {
		if text, named := want[a.Name]; !named || r.read("j", a.Name) != text || a.Type != "video/mp4" {
			t.Errorf("there is %+v", a)
		}
		delete(want, a.Name)
	}
	for name := range want {
		t.Errorf("there is no %s", name)
	}
	slices.Sort(r.lines)
	if diff := cmp.Diff([]string{`output "CON.mp4" is stored as "` + con + `"`, `output "结果.mp4" is stored as "` + film + `"`}, r.lines); diff != "" {
		t.Error(diff)
	}
}

func TestR47OutputsThatCannotBeRenamedAreFailures(t *testing.T) {
	for _, tt := range []struct{ name, script, toml, want string }{
		{"two that would have one name", `echo x >"$1/a b"; echo y >"$1/` + artifact.PortableName("a b") + `"`, "", `both would be stored as ` + artifact.PortableName("a b")},
		{"a directory", `mkdir "$1/a b"`, "", `output "a b" is a directory: pack it into a file, as tar does`},
		{"a link", `ln -s /etc/passwd "$1/a b"`, "", `output "a b": a symbolic link`},
		{"the name of the log", `echo x >"$1/log.txt"`, "keep_log = true", "output log.txt: this name is kept for the log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, tt.script, tt.toml, "{output}")
			r.handler.Rename = true
			if f := r.fails(jobs.Job{ID: "j"}, 1, 0); f.Code != "OUTPUT_INVALID" || !strings.Contains(f.Error(), tt.want) {
				t.Errorf("%s %q, want %q", f.Code, f, tt.want)
			}
			if names := r.objects(); names != nil {
				t.Errorf("it has stored %q", names)
			}
		})
	}
}
