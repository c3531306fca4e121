package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/cli/own"
)

// probeTimeout bounds how long nvidia-smi is waited for: a driver may hang.
const probeTimeout = 10 * time.Second

// openGPUs returns the GPUs that --gpus names, or, with auto, those that this machine has.
func (f *relayFlags) openGPUs(ctx context.Context, log *slog.Logger) (own.GPUEnv, error) {
	if f.gpus == "none" || f.gpus == "" {
		return own.GPUEnv{}, nil
	}
	found, err := probeGPUs(ctx)
	if f.gpus == "auto" {
		if err != nil {
			log.InfoContext(ctx, "no GPUs", "why", err)
			return own.GPUEnv{}, nil
		}
		log.InfoContext(ctx, "found GPUs", "gpus", strings.Join(found, ","))
		return own.GPUEnv{GPUs: strings.Join(found, ",")}, nil
	}
	env := own.GPUEnv{GPUs: f.gpus}
	if wrong := errors.Join(env.Check()...); wrong != nil {
		return env, errors.New(strings.ReplaceAll(wrong.Error(), "WORKER_GPUS", "it"))
	}
	if err != nil {
		log.WarnContext(ctx, "whether these GPUs are there is not known", "gpus", f.gpus, "why", err)
		return env, nil
	}
	for index := range strings.SplitSeq(f.gpus, ",") {
		if index = strings.TrimSpace(index); !slices.Contains(found, index) {
			return env, fmt.Errorf("there is no GPU %s: nvidia-smi -L lists %s", index, strings.Join(found, ", "))
		}
	}
	return env, nil
}

// gpuLine is a line of nvidia-smi -L: "GPU 0: NVIDIA H100 (UUID: …)".
var gpuLine = regexp.MustCompile(`(?m)^GPU (\d+): `)

// probeGPUs returns the indices of the GPUs that nvidia-smi lists.
func probeGPUs(ctx context.Context) (found []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi", "-L").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("nvidia-smi is not installed")
	}
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi -L: %w", err)
	}
	for _, match := range gpuLine.FindAllSubmatch(out, -1) {
		found = append(found, string(match[1]))
	}
	if len(found) == 0 {
		return nil, errors.New("nvidia-smi -L lists none")
	}
	return found, nil
}
