package program

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
)

// outOfGPUMemory matches a line of a program that the GPU has refused memory. What libraries write of the memory of
// the machine, and of an allocation that is tried again, does not match.
var outOfGPUMemory = jobs.Form(`(?i)` + strings.Join([]string{
	`\b(?:cuda|hip|rocm)[^\n]{0,80}out of memory`, // CUDA, HIP, NCCL, PyTorch, ONNX Runtime, TensorRT, llama.cpp, CuPy
	`CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory|hipErrorMemoryAllocation`,
	`\b(?:cu|hip)[a-z]+_STATUS_ALLOC_FAILED`, // cuBLAS, cuDNN and their like
	`\btorch(?:\.cuda)?\.OutOfMemoryError|\bcupy\S*\.OutOfMemoryError`,
	`resource[_ ]exhausted: (?:out of memory|failed to allocate)`,                           // XLA: JAX, TensorFlow
	`OOM when allocating tensor[^\n]*\bGPU|Dst tensor is not initialized`,                   // TensorFlow
	`BFCArena::AllocateRawInternal[^\n]*failed to allocate memory`,                          // ONNX Runtime
	`(?:failed|unable) to allocate (?:CUDA|ROCm|Vulkan)\d* buffer`,                          // llama.cpp
	`ErrorOutOfDeviceMemory|VK_ERROR_OUT_OF_DEVICE_MEMORY|CL_MEM_OBJECT_ALLOCATION_FAILURE`, // Vulkan, OpenCL
	`out of memory error on GPU`,                                                            // PaddlePaddle
	`\bout of GPU (?:and shared host )?memory|out of memory in (?:cu|hip)[A-Z]\w+\(`,        // Blender
}, "|"))

// recentBytes is how much of stderr counts as what a program has written last: after its message XLA lists the largest
// buffers, in some 10 KB. recentLine is how much counts of a line.
const (
	recentBytes = 16 << 10
	recentLine  = 4 << 10
)

// recent keeps the lines that a program has written last to stderr.
type recent struct{ text []byte }

func (r *recent) add(line []byte) {
	r.text = append(append(r.text, line[:min(len(line), recentLine)]...), '\n')
	if n := len(r.text); n > 4*recentBytes { // so that bytes are moved rarely
		r.text = append(r.text[:0], r.text[n-recentBytes:]...)
	}
}

// has reports whether one of the patterns matches a line.
func (r *recent) has(patterns []*regexp.Regexp) bool {
	for line := range bytes.SplitSeq(r.text[max(0, len(r.text)-recentBytes):], []byte("\n")) {
		for _, p := range patterns {
			if p.Match(line) {
				return true
			}
		}
	}
	return false
}

// oomPatterns are the patterns of lines by which the program says that the memory of its GPU is used up.
func (a run) oomPatterns() (patterns []*regexp.Regexp) {
	if a.Kind.OOM != nil {
		patterns = append(patterns, a.Kind.OOM)
	}
	if len(a.Slot.GPUs) > 0 {
		patterns = append(patterns, outOfGPUMemory())
	}
	return patterns
}
