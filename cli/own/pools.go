package own

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// maxGPU is the largest index of a GPU.
const maxGPU = 1023

// Check returns what is wrong with the settings.
func (e *GPUEnv) Check() []error {
	_, err := e.indices()
	return []error{err}
}

// indices returns the GPUs of the worker.
func (e *GPUEnv) indices() (gpus []int, err error) {
	for field := range strings.SplitSeq(e.GPUs, ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		gpu, err := strconv.Atoi(field)
		if err != nil || gpu < 0 || gpu > maxGPU || slices.Contains(gpus, gpu) {
			return nil, fmt.Errorf("WORKER_GPUS is %.80q: want different indices from 0 to %d, such as 0,1", e.GPUs, maxGPU)
		}
		gpus = append(gpus, gpu)
	}
	return gpus, nil
}

// Runnable returns the kinds that a worker can run: those with GPUs only if it has any. Workers with and
// without GPUs may share a kinds file; the latter leave those jobs to the former.
func (e *GPUEnv) Runnable(all []Kind, log *slog.Logger) []Kind {
	if strings.TrimSpace(e.GPUs) != "" {
		return all
	}
	return slices.DeleteFunc(all, func(k Kind) bool {
		if k.GPUs > 0 {
			log.Warn("a kind needs GPUs and WORKER_GPUS names none: its jobs are left to other workers", "kind", k.Name)
		}
		return k.GPUs > 0
	})
}

// Pools returns the pools of a worker with that many slots. A kind with slots of its own has a pool of
// its own, and so has one with GPUs; all others share the worker's slots. Of kinds with as many GPUs a job,
// those that do not say how many slots they have share what GPUs are left.
func (e *GPUEnv) Pools(all []Kind, slots int) ([]worker.Pool, error) {
	gpus, err := e.indices()
	if err != nil {
		return nil, err
	}
	pools := []worker.Pool{{Slots: slots}}
	var wrong []error
	have := len(gpus)
	take := func(k Kind, n int) []int {
		if n > len(gpus) {
			wrong = append(wrong, fmt.Errorf("kind %s needs %s, and of the %d in WORKER_GPUS only %d are left", k.Name, jobs.Count(n, "GPU"), have, len(gpus)))
			return nil
		}
		taken := gpus[:n:n]
		gpus = gpus[n:]
		return taken
	}
	var sharing []Kind // the GPUs that are left
	for _, k := range all {
		switch {
		case k.GPUs > 0 && k.Slots == 0:
			sharing = append(sharing, k)
		case k.Slots > 0:
			pools = append(pools, worker.Pool{Name: string(k.Name), Kinds: []jobs.Kind{k.Name}, Slots: k.Slots, GPUs: take(k, k.Slots*k.GPUs)})
		}
	}
	if len(sharing) > 0 {
		most := slices.MaxFunc(sharing, func(a, b Kind) int { return cmp.Compare(a.GPUs, b.GPUs) })
		p := worker.Pool{Name: "gpu"}
		for _, k := range sharing {
			if k.GPUs != most.GPUs {
				wrong = append(wrong, fmt.Errorf("kinds %s and %s need %d and %d GPUs a job: say with slots how many jobs of each run at once", k.Name, most.Name, k.GPUs, most.GPUs))
			}
			p.Kinds = append(p.Kinds, k.Name)
		}
		p.Slots = len(gpus) / most.GPUs
		p.GPUs = take(most, max(1, p.Slots)*most.GPUs)
		pools = append(pools, p)
	}
	return pools, errors.Join(wrong...)
}
