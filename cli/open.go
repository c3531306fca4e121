package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"

	cloud "cloud.google.com/go/storage"

	"github.com/batchfleet/batchfleet/cli/pdfchild"
	_ "github.com/batchfleet/batchfleet/cli/pdfquick"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/gcs"
	"github.com/batchfleet/batchfleet/storage/s3"
	"github.com/batchfleet/batchfleet/worker"
)

// openStatus returns the status store. Nothing is sent yet.
func (e *RedisEnv) openStatus(pool int) (*status.Store, io.Closer) {
	rdb := e.openRedis(pool)
	return status.New(rdb), rdb
}

// there returns an error if there is no directory to find results in, for commands that look for them:
// to open a store makes its directory.
func (e *StorageEnv) there() error {
	if e.Type != "LOCAL" {
		return nil
	}
	if _, err := os.Stat(e.Path); err != nil {
		return fmt.Errorf("LOCAL_STORAGE_PATH is %q, which cannot be read here: set it to where the workers store results", oneLine(e.Path))
	}
	return nil
}

// openStorage returns the store for inputs and results.
func (e *StorageEnv) openStorage(ctx context.Context) (storage.Store, error) {
	if e.Type == "LOCAL" {
		local, err := storage.NewLocal(e.Path)
		if err != nil {
			return nil, fmt.Errorf("LOCAL_STORAGE_PATH %s: %w", e.Path, err)
		}
		return local, nil
	}
	if e.Type == "S3" {
		return e.openS3(ctx)
	}
	client, err := cloud.NewClient(ctx, cloud.WithJSONReads())
	if err != nil && strings.Contains(err.Error(), "could not find default credentials") {
		return nil, program.Exit(program.Usage, errors.New("open Cloud Storage: there are no credentials for Google Cloud: set GOOGLE_APPLICATION_CREDENTIALS to a file with a key or run `gcloud auth application-default login`; "+
			"for an emulator set STORAGE_EMULATOR_HOST instead; STORAGE_TYPE=LOCAL needs neither"))
	}
	if err != nil {
		return nil, fmt.Errorf("open Cloud Storage: %w: %w", jobs.ErrUnavailable, err)
	}
	return gcs.New(client, e.Bucket, e.Allowed...), nil
}

// openS3 returns the store in a bucket of S3. The store itself is not asked yet.
func (e *StorageEnv) openS3(ctx context.Context) (storage.Store, error) {
	server := s3.Server{
		Endpoint: e.S3Endpoint, Region: e.S3Region, PathStyle: e.S3PathStyle, CAFile: e.S3CAFile,
		AccessKey: e.AccessKey, SecretKey: e.SecretKey, Token: e.SessionToken,
	}
	client, err := server.Client(ctx)
	switch {
	case errors.Is(err, s3.ErrNoCredentials):
		return nil, program.Exit(program.Usage, fmt.Errorf("open S3: %w: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to what ~/.aws/credentials has, "+
			"or give this machine or container a role; STORAGE_TYPE=LOCAL needs none of them", err))
	case errors.Is(err, s3.ErrCAFile):
		return nil, program.Exit(program.Usage, fmt.Errorf("S3_CA_FILE: %w", err))
	case err != nil:
		return nil, program.Exit(program.Usage, fmt.Errorf("open S3: %w", err))
	}
	store := s3.New(client, e.S3Bucket, e.Allowed...)
	store.Unconditional = e.S3Conditional == "false"
	return store, nil
}

// rules says how messages of this fleet are written and read.
func (e *ClientEnv) rules(kind jobs.Kind) pubsub.Rules {
	r := pubsub.Rules{DefaultKind: kind, Allowed: e.Allowed}
	switch e.Type {
	case "GCP":
		r.Bucket, r.Scheme = e.Bucket, storage.BucketScheme
	case "S3":
		r.Bucket, r.Scheme = e.S3Bucket, storage.S3Scheme
	}
	return r
}

// openPublisher returns the topic of the environment.
func (e *ClientEnv) openPublisher(ctx context.Context) (*pubsub.Publisher, error) {
	topic := e.names().topic
	if topic.err != nil {
		return nil, program.Exit(program.Usage, topic.err)
	}
	publisher, err := pubsub.OpenPublisher(ctx, topic.full, e.rules(""), e.connection()...)
	if errors.Is(err, pubsub.ErrNoCredentials) {
		return nil, program.Exit(program.Usage, err)
	}
	return publisher, err
}

// handlers returns what this binary can do, by kind; pdf is the engine of that
// kind.
func (e *WorkerEnv) handlers(pdf processor.Engine, store storage.Store, log *slog.Logger) map[jobs.Kind]worker.Handler {
	pages := func(engine processor.Engine) *processor.Pages {
		return &processor.Pages{
			Engine: engine, Store: store, Log: log, Dir: e.WorkDir,
			MaxInputBytes: e.MaxInputBytes, MaxPages: e.MaxPages, Checkpoint: e.Checkpoint.D(),
		}
	}
	return map[jobs.Kind]worker.Handler{
		"pdf": pages(pdf),
		"mock": pages(processor.Mock{
			MinPages: int(e.MockPages.Low), MaxPages: int(e.MockPages.High),
			MinSeconds: settings.Duration(e.MockPageSeconds.Low), MaxSeconds: settings.Duration(e.MockPageSeconds.High), Log: log,
		}),
	}
}

// The engines of kind pdf.
const (
	engineBuiltin = "builtin"
	enginePoppler = "poppler"
)

var engines = []string{engineBuiltin, enginePoppler}

// openEngine returns the engine of kind pdf that is asked for; children are
// closed after its last job.
func (e *PDFEnv) openEngine(ctx context.Context, children *processor.Children) (processor.Engine, error) {
	programs, err := e.programs(ctx)
	if err != nil {
		return nil, err
	}
	child := e.child()
	child.Children = children
	return engineOf(child, programs), nil
}

// programs returns the programs that the engine needs, nil for none. That they
// are missing is found here, before there is a job to fail.
func (e *PDFEnv) programs(ctx context.Context) (*processor.Programs, error) {
	if e.Engine != enginePoppler {
		return nil, nil
	}
	found, err := processor.FindPoppler(ctx)
	if err != nil {
		return nil, program.Exit(program.Usage, fmt.Errorf("open engine poppler (PDF_ENGINE): %w", err))
	}
	return &found, nil
}

func engineOf(child processor.PDF, programs *processor.Programs) processor.Engine {
	if programs == nil {
		return child
	}
	return processor.Poppler{PDF: child, Programs: *programs}
}

// child returns the built-in engine, which is also what poppler's programs run
// under.
func (e *PDFEnv) child() processor.PDF {
	strict := ""
	if e.PDFOnDamage == "fail" {
		strict = "PDF_ON_DAMAGE=fail"
	}
	return processor.PDF{
		Executable: ownPath(), Args: []string{pdfchild.Argument},
		MaxPages: e.MaxPages, Memory: e.PDFMemory, Timeout: e.PDFTimeout.D(), PageTimeout: e.PDFPageTimeout.D(),
		Strict: strict,
	}
}

// ownPath returns a path that executes this binary.
func ownPath() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe" // works also after an upgrade has replaced the file
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}
