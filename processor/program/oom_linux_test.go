package program_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// What libraries write when a GPU has no memory left, as people have reported it.
var oomLines = []string{
	"RuntimeError: CUDA out of memory. Tried to allocate 1024.00 KiB (GPU 0; 11.17 GiB total capacity; 10.90 GiB already allocated)",
	"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
	"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 16.00 GiB. GPU 0 has a total capacity of 15.24 GiB",
	"torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB.",
	"RuntimeError: CUDA error: out of memory",
	"RuntimeError: HIP error: out of memory",
	"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
	"cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
	"E cuda_driver.cc:828] failed to allocate 32.00M (33554432 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
	"terminate called after throwing an instance of 'thrust::system::system_error': cudaErrorMemoryAllocation: out of memory",
	"hipErrorOutOfMemory",
	"hipMalloc failed with hipErrorMemoryAllocation",
	"NCCL WARN Cuda failure 2 'out of memory'",
	"(0) Resource exhausted: OOM when allocating tensor with shape[16,112,112,147] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
	"tensorflow.python.framework.errors_impl.InternalError: Dst tensor is not initialized.",
	"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.",
	"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.99GiB (3206250496B) on device ordinal 0",
	"RuntimeError: Resource exhausted: Failed to allocate request for 32.00MiB (33554432B) on device ordinal 0",
	"onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 8388608000",
	"onnxruntime::CudaCall CUDA failure 2: out of memory ; GPU=0 ; hostname=a ; expr=cudaMalloc((void**)&p, size);",
	"[TRT] ../rtSafe/safeRuntime.cpp (25) - Cuda Error in nvinfer1::internal::DefaultAllocator::allocate: 2 (out of memory)",
	"[E] [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)",
	"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9866.00 MiB on device 1: cudaMalloc failed: out of memory",
	"ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 10345253120",
	"llama_model_load: error loading model: unable to allocate ROCm0 buffer",
	"ROCm error: out of memory",
	"ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
	"clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE",
	"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes",
	"ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 1.0GB memory",
	"Out of memory in cuMemAlloc(&device_pointer, size)",
	"System is out of GPU and shared host memory",
}

// What is not about the memory of a GPU, or not why a program fails.
var otherLines = []string{
	"MemoryError: Unable to allocate 8.00 GiB for an array with shape (1073741824,)",
	"RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes.",
	"runtime: out of memory: cannot allocate 4194304-byte block",
	"fork: Cannot allocate memory",
	"the chips are out of memory",
	"W bfc_allocator.cc:310] Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.37GiB. The caller indicates that this is not a failure",
	"OOM when allocating tensor with shape[8] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
	"grpc: RESOURCE_EXHAUSTED: received message larger than max (5 vs. 4)",
	"CUDA error: an illegal memory access was encountered",
	"torch.cuda.DeferredCudaCallError: device >= 0 && device < num_gpus",
}

// failsOnGPU runs a kind on GPU 0 whose program writes what stderr has, and then ends with end.
func failsOnGPU(t *testing.T, stderr, end, toml string) *jobs.Failure {
	t.Helper()
	r := open(t, `cat "${0%k.sh}stderr" >&2; `+end, toml)
	r.gpus = []int{0}
	write(t, filepath.Join(filepath.Dir(r.dir), "stderr"), stderr, 0o600)
	return r.fails(jobs.Job{ID: "j"}, 1, 0)
}

func TestK08GPUWithoutMemoryHasACodeOfItsOwn(t *testing.T) {
	for want, lines := range map[string][]string{"GPU_OOM": oomLines, "PROGRAM_FAILED": otherLines} {
		for _, line := range lines {
			if f := failsOnGPU(t, "loading\n"+line+"\nAborted.\n", "exit 3", ""); f.Code != want || f.Error() != "exit 3: Aborted." {
				t.Errorf("%s, %q after %s; want %s", f.Code, f, line, want)
			}
		}
	}
}

func TestK08GPUWithoutMemoryIsFoundInWhatWasWrittenLast(t *testing.T) {
	const line = "CUDA out of memory"
	peak := strings.Repeat("Size: 6.00MiB, XLA Label: concatenate, Shape: f32[4096,128,3]\n", 200) // after the message
	long := strings.Repeat("step\n", 100_000)
	for _, tt := range []struct{ name, stderr, end, toml, want string }{
		{"by a signal", line, "kill -ABRT $$", "", "GPU_OOM"},
		{"before a long report", "start\n" + line + "\n" + peak, "exit 1", "", "GPU_OOM"},
		{"after much else", long + line, "exit 1", "", "GPU_OOM"},
		{"long before it failed", line + "\n" + long, "exit 1", "", "PROGRAM_FAILED"},
		{"on stdout", "", "echo " + line + "; exit 1", "", "PROGRAM_FAILED"},
		{"with a limit of memory, which it has not met", line, "exit 1", "memory = \"1GiB\"", "GPU_OOM"},
		{"with a limit of disk, which it has met", line, "i=0; while :; do i=$((i + 1)); head -c 1000000 /dev/zero >$i; done", "disk = \"8MiB\"", "DISK_LIMIT"},
		{"by a pattern of the kind", "no room for 7 tensors", "exit 1", "oom = '^no room for \\d+ tensors$'", "GPU_OOM"},
		{"by another line than the pattern", "no room for 7 tensors here", "exit 1", "oom = '^no room for \\d+ tensors$'", "PROGRAM_FAILED"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := failsOnGPU(t, tt.stderr, tt.end, tt.toml)
			if f.Code != tt.want || strings.Contains(f.Error(), "limit") != (tt.want == "DISK_LIMIT") {
				t.Errorf("%s %q, want %s", f.Code, f, tt.want)
			}
		})
	}
}

func TestK08MessagesOfGPUsAreThoseOfJobsWithGPUs(t *testing.T) {
	for _, tt := range []struct {
		toml, want   string
		final, retry bool
		after        time.Duration
	}{
		{"", "PROGRAM_FAILED", false, false, 0},
		{"oom = 'CUDA'", "GPU_OOM", false, false, 0},
		{"oom = 'CUDA'\nretries = 1", "GPU_OOM", false, true, 10 * time.Second},
		{"oom = 'CUDA'\nretries = 1\nfinal_exit = [3]", "GPU_OOM", true, false, 0},
	} {
		f := open(t, "echo CUDA out of memory >&2; exit 3", tt.toml).fails(jobs.Job{ID: "j"}, 1, 0)
		if f.Code != tt.want || f.Final != tt.final || f.Retry != tt.retry || f.RetryAfter != tt.after {
			t.Errorf("%q: %s %q, final %t, retry %t after %s", tt.toml, f.Code, f, f.Final, f.Retry, f.RetryAfter)
		}
	}
}
