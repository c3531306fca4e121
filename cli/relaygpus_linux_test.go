package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// withGPUs puts an nvidia-smi before all others that lists two GPUs.
func (r *testRelay) withGPUs() {
	r.t.Helper()
	bin := filepath.Join(r.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		r.t.Fatal(err)
	}
	r.program("bin/nvidia-smi", `printf 'GPU 0: Some GPU (UUID: GPU-a)\nGPU 1: Some GPU (UUID: GPU-b)\n'`)
	r.env = append(r.env, "PATH="+bin+":"+os.Getenv("PATH"), "HELD="+r.dir)
}

// gpuKinds hold a GPU: a second task that runs on it at once finds the directory of the first.
const gpuKinds = `
[render]
command = ["./render"]
gpus = 1
env = ["HELD"]
[stubborn]
command = ["./stubborn"]
gpus = 1
env = ["HELD"]
[plain]
command = ["sh", "-c", "echo \"<$CUDA_VISIBLE_DEVICES>\" >{output}/out"]
`

func (r *testRelay) gpuPrograms() {
	r.t.Helper()
	r.program("render", `d="$HELD/gpu-$CUDA_VISIBLE_DEVICES"
mkdir "$d" || { echo "GPU $CUDA_VISIBLE_DEVICES is held" >&2; exit 3; }
sleep 0.2; echo "$CUDA_VISIBLE_DEVICES" >"$BATCHFLEET_OUTPUT/gpu"; rmdir "$d"`)
	// Its child holds the GPU until it is killed, and takes no heed of SIGTERM.
	r.program("stubborn", `trap "" TERM; echo "$CUDA_VISIBLE_DEVICES" >"$HELD/stubborn"
setsid sh -c 'trap "" TERM; while :; do sleep 0.05; done' & echo $! >"$HELD/child"; while :; do sleep 0.05; done`)
}

func TestR22TasksShareNoGPU(t *testing.T) {
	t.Parallel()
	r := newTestRelay(t, gpuKinds) // --gpus auto
	r.withGPUs()
	r.gpuPrograms()
	r.start()
	var ids []string
	for range 8 {
		ids = append(ids, r.create("render"))
	}
	seen := map[string]int{}
	for _, id := range ids {
		r.untilStatus(id, "succeeded") // with a failure for each that finds its GPU held
		seen[r.artifact(id, "gpu")]++
	}
	if len(seen) != 2 || seen["0\n"] == 0 || seen["1\n"] == 0 {
		t.Errorf("tasks ran on GPUs %v, want both of 0 and 1", seen)
	}
	plain := r.create("plain")
	if r.untilStatus(plain, "succeeded"); r.artifact(plain, "out") != "<>\n" {
		t.Errorf("a task without a GPU sees %q", r.artifact(plain, "out"))
	}
	r.stop()
}

// A GPU is free when all processes of its task are gone, and not when the task is asked to stop.
func TestR22R41R42GPUIsFreeWhenAllProcessesAreGone(t *testing.T) {
	t.Parallel()
	r := newTestRelay(t, gpuKinds, "--gpus", "1")
	r.withGPUs()
	r.gpuPrograms()
	r.start()
	stubborn := r.create("stubborn")
	r.has("child")
	if gpu, err := os.ReadFile(filepath.Join(r.dir, "stubborn")); err != nil || string(gpu) != "1\n" {
		t.Errorf("it runs on %q, %v, want the GPU of --gpus", gpu, err)
	}
	// It notes whether the other one is still there.
	r.program("render", `pid=$(cat "$HELD/child"); if [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; then echo "$pid still runs" >&2; exit 3; fi; echo fine >"$BATCHFLEET_OUTPUT/gpu"`)
	next := r.create("render")
	r.must(http.StatusAccepted, http.MethodPost, "/v1/tasks/"+stubborn+"/cancel", "")
	r.must(http.StatusAccepted, http.MethodPost, "/v1/tasks/"+stubborn+"/cancel", "")
	if task := r.task(next); task.Status != "queued" {
		t.Errorf("the next task is %s while the GPU is held", task.Status)
	}
	r.untilStatus(next, "succeeded")
	r.untilStatus(stubborn, "canceled")
	untilGone(t, stubborn)
	r.must(http.StatusConflict, http.MethodPost, "/v1/tasks/"+stubborn+"/cancel", "")
	r.stop()
}

func TestR22WrongGPUsAreTold(t *testing.T) {
	t.Parallel()
	r := newTestRelay(t, gpuKinds)
	r.gpuPrograms()
	r.withGPUs()
	for gpus, want := range map[string]string{"0,5": "there is no GPU 5: nvidia-smi -L lists 0, 1", "a": `--gpus: it is "a": want different indices`, "0,0": "want different indices"} {
		p := r.launched("--gpus", gpus)
		if code := p.exitCode(time.Minute); code != 2 || !strings.Contains(p.log.String(), want) {
			t.Errorf("--gpus %s: exit code %d, want 2 and %q:\n%s", gpus, code, want, p.log)
		}
	}
	// auto without nvidia-smi is none: kinds with GPUs are refused, and others run.
	r.env = append(r.env, "PATH="+withoutNvidia(t))
	r.start()
	if answer := r.must(http.StatusBadRequest, http.MethodPost, "/v1/tasks", `{"job_id":"j","kind":"render"}`); !strings.Contains(answer, "needs a GPU") {
		t.Errorf("a task of a kind with a GPU: %s", answer)
	}
	r.untilStatus(r.create("plain"), "succeeded")
	r.stop()
}

// withoutNvidia is a PATH with what the programs of the tests need.
func withoutNvidia(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "sleep", "cat"} {
		for _, in := range []string{"/bin/", "/usr/bin/"} {
			if _, err := os.Stat(in + name); err == nil {
				if err := os.Symlink(in+name, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	return dir
}
