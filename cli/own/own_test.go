package own_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/worker"
)

// kind returns a kind with so many slots and GPUs.
func kind(name string, slots, gpus int) own.Kind {
	k := kinds.Own(jobs.Kind(name))
	k.Slots, k.GPUs = slots, gpus
	return own.Kind{Kind: k}
}

// write writes a kinds file and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kinds.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// show writes pools as "NAME KINDS SLOTS GPUS".
func show(pools []worker.Pool) string {
	var all []string
	for _, p := range pools {
		all = append(all, fmt.Sprintf("%s%v %d %v", p.Name, p.Kinds, p.Slots, p.GPUs))
	}
	return strings.Join(all, "; ")
}

func TestPoolsOfKindsWithSlotsAndGPUs(t *testing.T) {
	for _, tt := range []struct {
		name, gpus string
		kinds      []own.Kind
		want       string
	}{
		{"without kinds all slots are the worker's", "", nil, "[] 4 []"},
		{"kinds without slots share those of the worker", "0,1", []own.Kind{kind("a", 0, 0), kind("b", 0, 0)}, "[] 4 []"},
		{"a kind with slots has a pool of its own", "", []own.Kind{kind("a", 2, 0), kind("b", 0, 0)}, "[] 4 []; a[a] 2 []"},
		{"slots with GPUs take them from the first one on", "3,5,7", []own.Kind{kind("a", 2, 1)}, "[] 4 []; a[a] 2 [3 5]"},
		{"each slot has as many GPUs as a job holds", "0,1,2,3", []own.Kind{kind("a", 2, 2)}, "[] 4 []; a[a] 2 [0 1 2 3]"},
		{"a kind with GPUs and no slots has as many slots as fit", "0,1,2", []own.Kind{kind("a", 0, 1)}, "[] 4 []; gpu[a] 3 [0 1 2]"},
		{"a GPU that fits into no slot is not used", "0,1,2", []own.Kind{kind("a", 0, 2)}, "[] 4 []; gpu[a] 1 [0 1]"},
		{"kinds that hold as many GPUs share them", "0,1", []own.Kind{kind("a", 0, 1), kind("b", 0, 1)}, "[] 4 []; gpu[a b] 2 [0 1]"},
		{"they share what is left", "0,1,2", []own.Kind{kind("a", 0, 1), kind("b", 1, 1)}, "[] 4 []; b[b] 1 [0]; gpu[a] 2 [1 2]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pools, err := (&own.GPUEnv{GPUs: tt.gpus}).Pools(tt.kinds, 4)
			if got := show(pools); err != nil || got != tt.want {
				t.Errorf("pools %q (%v), want %q", got, err, tt.want)
			}
		})
	}
}

func TestGPUsThatDoNotSufficeAreNamed(t *testing.T) {
	for _, tt := range []struct {
		name, gpus string
		kinds      []own.Kind
		want       string
	}{
		{"a kind needs more than there are", "0", []own.Kind{kind("a", 2, 1)}, "kind a needs 2 GPUs, 1 for each of its 2 slots, but WORKER_GPUS names 1: name more"},
		{"no job fits", "0", []own.Kind{kind("a", 0, 2)}, "kind a needs 2 GPUs, but WORKER_GPUS names 1: name more"},
		{"another kind has taken them", "0,1", []own.Kind{kind("a", 2, 1), kind("b", 0, 1)}, "kind b needs 1 GPU, but WORKER_GPUS names 2, and other kinds have 2 (a): name more"},
		{"kinds that share hold different numbers", "0,1", []own.Kind{kind("a", 0, 1), kind("b", 0, 2)}, "kinds a and b need 1 and 2 GPUs a job: say with slots"},
		{"all mistakes are told at once", "0", []own.Kind{kind("a", 2, 1), kind("b", 3, 1)}, "kind b needs 3 GPUs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := (&own.GPUEnv{GPUs: tt.gpus}).Pools(tt.kinds, 4)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestMistakesInWorkerGPUsAreFound(t *testing.T) {
	for _, tt := range []struct {
		name, gpus string
		ok         bool
	}{
		{"none", "", true},
		{"blanks alone are none", " ", true},
		{"blanks around indices do not matter", " 0 , 1 ", true},
		{"the largest index", "1023", true},
		{"an index that is too large", "1024", false},
		{"a negative index", "-1", false},
		{"a name", "GPU-8f3a", false},
		{"a range", "0-3", false},
		{"an index that is given twice", "0,1,0", false},
		{"the same index, written in another way", "1,01", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &own.GPUEnv{GPUs: tt.gpus}
			found := slices.ContainsFunc(e.Check(), func(err error) bool { return err != nil })
			if found == tt.ok {
				t.Errorf("%q: mistakes %v", tt.gpus, e.Check())
			}
			if _, err := e.Pools(nil, 1); (err == nil) != tt.ok {
				t.Errorf("%q: pools: %v", tt.gpus, err)
			}
		})
	}
}

func TestWorkerWithoutGPUsLeavesKindsWithGPUsToOthers(t *testing.T) {
	var text testlog.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	names := func(gpus string) (names []string) {
		for _, k := range (&own.GPUEnv{GPUs: gpus}).Runnable([]own.Kind{kind("plain", 0, 0), kind("big", 0, 2), kind("slots", 1, 0)}, log) {
			names = append(names, string(k.Name))
		}
		return names
	}
	if got := names("0,1"); !slices.Equal(got, []string{"plain", "big", "slots"}) || text.String() != "" {
		t.Errorf("with GPUs it runs %q\n%s", got, text.String())
	}
	if got := names(""); !slices.Equal(got, []string{"plain", "slots"}) {
		t.Errorf("without, it runs %q", got)
	}
	if !strings.Contains(text.String(), "a kind needs GPUs and none are named") || !strings.Contains(text.String(), "kind=big") {
		t.Errorf("the log does not say so:\n%s", text.String())
	}
}

func TestK01MissingProgramsAndNamesThatAreTakenAreMistakes(t *testing.T) {
	built := kind("mine", 0, 0)
	own.Built = []own.Kind{built}
	t.Cleanup(func() { own.Built = nil })
	for _, tt := range []struct{ name, file, want string }{
		{"a kind of the file has the name of one of the program", "[mine]\ncommand = [\"true\"]\n", "built with"},
		{"a program is missing", "[other]\ncommand = [\"./missing.sh\"]\n", "missing.sh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := (&own.Env{File: write(t, tt.file)}).Open(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	all, err := (&own.Env{File: write(t, "[other]\ncommand = [\"true\"]\n")}).Open()
	if err != nil || len(all) != 2 || all[0].Name != "other" || all[1].Name != "mine" {
		t.Errorf("there is %v (%v), want kinds other and mine", all, err)
	}
	if all, err := (&own.Env{}).Open(); err != nil || len(all) != 1 || all[0].Kind != built.Kind {
		t.Errorf("without a file there is %v (%v)", all, err)
	}
}
