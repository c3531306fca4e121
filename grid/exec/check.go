package exec

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	maxFileName = 255 // bytes
	maxEnv      = 1000
	maxEnvBytes = 128 << 10 // of all variables together
	ownDir      = ".grid"   // in the work directory and in the archive
)

// Check returns what is wrong with a request, or nil.
func Check(q *wire.JobRequest) error {
	if q.JobID.IsZero() {
		return fmt.Errorf("JobId is missing")
	}
	if err := wire.CheckClientID(q.ClientID); err != nil {
		return err
	}
	if err := wire.CheckExecName(q.ExecName); err != nil {
		return err
	}
	if q.TimeoutMs < 0 || q.TimeoutMs > math.MaxInt64/int64(1e6) {
		return fmt.Errorf("TimeoutMs is %d, must be a number of milliseconds", q.TimeoutMs)
	}
	if err := checkArgs(q.Args); err != nil {
		return err
	}
	if err := checkFiles(q); err != nil {
		return err
	}
	return checkEnv(q.Env)
}

func checkArgs(args []string) error {
	if len(args) > wire.MaxArgs {
		return fmt.Errorf("there are %d Args, at most %d", len(args), wire.MaxArgs)
	}
	size := 0
	for i, a := range args {
		if strings.IndexByte(a, 0) >= 0 {
			return fmt.Errorf("argument %d of Args has a NUL character", i)
		}
		size += len(a)
	}
	if size > wire.MaxArgBytes {
		return fmt.Errorf("there are %d bytes of Args, at most %d", size, wire.MaxArgBytes)
	}
	return nil
}

func checkFiles(q *wire.JobRequest) error {
	if len(q.Files) > wire.MaxFiles {
		return fmt.Errorf("there are %d Files, at most %d", len(q.Files), wire.MaxFiles)
	}
	seen := make(map[string]string, len(q.Files))
	for _, f := range q.Files {
		if err := CheckFileName(f.Name, q.ExecName); err != nil {
			return err
		}
		folded := strings.ToLower(f.Name)
		if other, twice := seen[folded]; twice {
			return fmt.Errorf("files %q and %q have the same name on some systems", other, f.Name)
		}
		seen[folded] = f.Name
		if err := checkSource(f); err != nil {
			return fmt.Errorf("file %q: %w", f.Name, err)
		}
	}
	return nil
}

// checkSource checks where the content of a file is.
func checkSource(f wire.InputFile) error {
	n := 0
	for _, has := range []bool{f.Content != nil, f.CacheID != nil, f.Blob != nil} {
		if has {
			n++
		}
	}
	switch {
	case n == 0:
		return fmt.Errorf("it has neither Content nor CacheId nor Blob")
	case n > 1:
		return fmt.Errorf("it has more than one of Content, CacheId and Blob")
	case f.CacheID != nil:
		if err := checkName(*f.CacheID); err != nil {
			return fmt.Errorf("CacheId %.80q %w", *f.CacheID, err)
		}
	case f.Blob != nil && (f.Blob.Size < 0 || len(f.Blob.SHA256) != 64 || strings.Trim(f.Blob.SHA256, "0123456789abcdef") != ""):
		return fmt.Errorf("its Blob needs a Size and, as Sha256, 64 hexadecimal digits in lower case")
	}
	return nil
}

// CheckFileName returns what is wrong with the name of a file for an exec.
func CheckFileName(name, exec string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("file name %.80q %w", name, err)
	}
	switch strings.ToLower(name) {
	case strings.ToLower(exec) + ".exe", "result.zip", ownDir:
		return fmt.Errorf("file name %q is reserved", name)
	}
	return nil
}

// deviceForm matches what Windows takes for a device, whatever its extension.
var deviceForm = jobs.Form(`(?i)^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(?:[.:]|$)`)

// checkName returns what is wrong with the name of a file in a directory.
func checkName(name string) error {
	switch {
	case name == "" || name == ".":
		return fmt.Errorf("names no file")
	case len(name) > maxFileName:
		return fmt.Errorf("has %d bytes, at most %d", len(name), maxFileName)
	case strings.Contains(name, ".."):
		return fmt.Errorf(`must not have ".."`)
	case strings.ContainsAny(name, `/\`):
		return fmt.Errorf(`must not have "/" or "\"`)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("must be text without control characters")
	case deviceForm().MatchString(name):
		return fmt.Errorf("is a device on Windows")
	}
	return nil
}

// envForm is the form of a variable's name.
var envForm = jobs.Form(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// forbiddenEnv matches variables that a request may not set: ours, and those by which a system or an interpreter runs code
// that a file holds. A client may only run the programs that are there.
var forbiddenEnv = jobs.Form(`^(?:GRID_.*|BATCHFLEET_.*|PATH|HOME|TMPDIR|TRACEPARENT|` +
	`LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH|MALLOC_.*|` + // dynamic loaders and C libraries
	`ENV|BASH.*|SHELLOPTS|IFS|PS4|CDPATH|` + // shells
	`PYTHON.*|PERL.*|RUBY.*|GEM_.*|NODE_.*|LUA_.*|PHP.*|R_.*|TCL.*|JAVA_.*|JDK_.*|_JAVA_.*|CLASSPATH|DOTNET_.*|CORECLR_.*|COR_.*|` + // interpreters
	`OPENSSL_.*|GIT_.*|SSH_.*|EDITOR|PAGER|VISUAL|BROWSER)$`) // libraries and tools that start others

func checkEnv(env map[string]string) error {
	if len(env) > maxEnv {
		return fmt.Errorf("there are %d variables in Env, at most %d", len(env), maxEnv)
	}
	size := 0
	for name, value := range env {
		switch {
		case !envForm().MatchString(name):
			return fmt.Errorf("variable %.80q of Env must be letters, digits and _, at most 128", name)
		case forbiddenEnv().MatchString(name):
			return fmt.Errorf("variable %s of Env may not be set by a request", name)
		case strings.IndexByte(value, 0) >= 0:
			return fmt.Errorf("variable %s of Env has a NUL character", name)
		}
		size += len(name) + len(value)
	}
	if size > maxEnvBytes {
		return fmt.Errorf("there are %d bytes of Env, at most %d", size, maxEnvBytes)
	}
	return nil
}
