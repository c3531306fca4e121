package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of a request; more are in names.go.
const (
	MaxEnvBytes   = 64 << 10 // of all names and values together
	MaxIndexes    = 1_000_000
	MaxTimeout    = 30 * 24 * time.Hour
	MaxAttempts   = 100
	MaxPriority   = 100 // and -100
	MaxBlobSize   = 1 << 40
	maxArrayIndex = 999_999_999
	maxTrace      = 128
	maxRef        = 2048
)

// CheckRequest returns the first thing that is wrong with a request, or nil. [ReadSubmit] makes the same checks for a leader.
func CheckRequest(r *JobRequest) error {
	if err := checkNames(r.JobID, r.ClientID, r.ExecName); err != nil {
		return err
	}
	var args argLimit
	for _, arg := range r.Args {
		if err := args.add(len(arg), strings.IndexByte(arg, 0) >= 0); err != nil {
			return err
		}
	}
	if err := checkFileCount(len(r.Files)); err != nil {
		return err
	}
	names := make(fileNames, len(r.Files))
	for i := range r.Files {
		if err := r.Files[i].check(names); err != nil {
			return err
		}
	}
	if err := names.checkExec(r.ExecName); err != nil {
		return err
	}
	return r.check()
}

func checkNames(job GUID, client, exec string) error {
	if job.IsZero() {
		return errors.New("JobId is missing")
	}
	if err := CheckClientID(client); err != nil {
		return err
	}
	return CheckExecName(exec)
}

// argLimit checks arguments one by one, and their total size.
type argLimit struct{ count, bytes int }

func (a *argLimit) add(size int, nul bool) error {
	a.count++
	a.bytes += size
	switch {
	case a.count > MaxArgs:
		return fmt.Errorf("more than %d Args", MaxArgs)
	case a.bytes > MaxArgBytes:
		return fmt.Errorf("the Args have more than %d bytes together; give them in a file", MaxArgBytes)
	case nul:
		return fmt.Errorf("argument %d has a NUL", a.count)
	}
	return nil
}

func checkFileCount(n int) error {
	if n > MaxFiles {
		return fmt.Errorf("more than %d Files; put several into one archive", MaxFiles)
	}
	return nil
}

// check checks one file of a request; names are those of the files before it.
func (f *InputFile) check(names fileNames) error {
	if err := names.add(f.Name); err != nil {
		return err
	}
	given := 0
	for _, has := range [...]bool{f.Content != nil, f.CacheID != nil, f.Blob != nil} {
		if has {
			given++
		}
	}
	var err error
	switch {
	case given == 0:
		return fmt.Errorf("file %.80q has no Content, CacheId or Blob", f.Name)
	case given > 1:
		return fmt.Errorf("file %.80q has more than one of Content, CacheId and Blob", f.Name)
	case f.CacheID != nil:
		err = checkTokens("CacheId", *f.CacheID)
	case f.Blob != nil:
		err = f.Blob.Check()
	}
	if err != nil {
		return fmt.Errorf("file %.80q: %w", f.Name, err)
	}
	return nil
}

// Check returns what is wrong with a blob, or nil. Its name may be empty.
func (b *Blob) Check() error {
	if err := CheckDigest(b.SHA256); err != nil {
		return err
	}
	if b.Size < 0 || b.Size > MaxBlobSize {
		return fmt.Errorf("member Size %d of a blob must be 0 to %d", b.Size, int64(MaxBlobSize))
	}
	if len(b.Ref) > maxRef {
		return fmt.Errorf("member Ref of a blob has %d bytes, at most %d", len(b.Ref), maxRef)
	}
	if b.Name == "" {
		return nil
	}
	return CheckFileName(b.Name)
}

// CheckDigest returns what is wrong with the SHA-256 of a blob, or nil.
func CheckDigest(digest string) error {
	if len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" {
		return fmt.Errorf("member Sha256 %.80q of a blob must be 64 hexadecimal digits, lower case", digest)
	}
	return nil
}

func (o *Options) check() error {
	switch {
	case o.TimeoutMs < 0 || o.TimeoutMs > MaxTimeout.Milliseconds():
		return fmt.Errorf("TimeoutMs %d must be 0 to %d, which is 30 days", o.TimeoutMs, MaxTimeout.Milliseconds())
	case o.MaxAttempts < 0 || o.MaxAttempts > MaxAttempts:
		return fmt.Errorf("MaxAttempts %d must be 0 to %d", o.MaxAttempts, MaxAttempts)
	case o.Priority < -MaxPriority || o.Priority > MaxPriority:
		return fmt.Errorf("member Priority %d must be -%d to %d", o.Priority, MaxPriority, MaxPriority)
	case o.OnDisconnect != "" && o.OnDisconnect != "cancel":
		return fmt.Errorf("OnDisconnect %.80q must be cancel, or left out", o.OnDisconnect)
	case len(o.Trace) > maxTrace || strings.ContainsFunc(o.Trace, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("member Trace %.80q must be a traceparent, of at most %d bytes", o.Trace, maxTrace)
	case (o.Index == nil) != (o.ArrayID == nil):
		return errors.New("members Index and ArrayId come together")
	case o.Index != nil && (*o.Index < 0 || *o.Index > maxArrayIndex):
		return fmt.Errorf("member Index %d must be 0 to %d", *o.Index, maxArrayIndex)
	}
	if err := checkRetryOn(o.RetryOn); err != nil {
		return err
	}
	if o.Array != "" {
		if _, _, err := ParseArray(o.Array); err != nil {
			return err
		}
	}
	return checkEnv(o.Env)
}

func checkRetryOn(words []string) error {
	if len(words) > 2 {
		return errors.New("RetryOn has more than two words")
	}
	for _, word := range words {
		if word != ReasonExit && word != ReasonTimeout {
			return fmt.Errorf("RetryOn %.80q must be %s or %s", word, ReasonExit, ReasonTimeout)
		}
	}
	return nil
}

func checkEnv(env map[string]string) error {
	size := 0
	for name, value := range env {
		if err := checkVariable(name, value, &size); err != nil {
			return err
		}
	}
	return nil
}

// checkVariable checks one variable of an environment, and adds its size to the total.
func checkVariable(name, value string, size *int) error {
	if *size += len(name) + len(value); *size > MaxEnvBytes {
		return fmt.Errorf("member Env has more than %d bytes; give them in a file", MaxEnvBytes)
	}
	if !envName(name) {
		return fmt.Errorf("name %.80q in Env must be letters, digits and _, and not begin with a digit", name)
	}
	// A job must not set variables that its worker sets, or that make the loader put other code into a program.
	for _, prefix := range [...]string{"GRID_", "LD_", "DYLD_"} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return fmt.Errorf("name %.80q in Env must not begin with %s", name, prefix)
		}
	}
	if strings.IndexByte(value, 0) >= 0 {
		return fmt.Errorf("value of %.80q in Env has a NUL", name)
	}
	return nil
}

func envName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}

// ParseArray reads the indexes of an array, such as 0-99: the first and the last, both included. A single number is an array of one job.
func ParseArray(s string) (first, last int64, err error) {
	from, to, span := strings.Cut(s, "-")
	if !span {
		to = from
	}
	first, last = arrayIndex(from), arrayIndex(to)
	if first < 0 || last < first {
		return 0, 0, fmt.Errorf("member Array %.80q must be two numbers up to %d, such as 0-99", s, maxArrayIndex)
	}
	if n := last - first + 1; n > MaxIndexes {
		return 0, 0, fmt.Errorf("member Array %.80q has %d indexes, at most %d", s, n, MaxIndexes)
	}
	return first, last, nil
}

// arrayIndex returns -1 for an invalid index.
func arrayIndex(s string) int64 {
	n, err := strconv.ParseUint(s, 10, 32) // digits alone: no sign, no _
	if err != nil || n > maxArrayIndex {
		return -1
	}
	return int64(n)
}
