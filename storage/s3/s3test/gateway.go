package s3test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// Gateway starts Versity's gateway, a server that people run, with some buckets, and returns
// its address. It checks signatures, digests and conditions as S3 does. It is installed by
// setup.sh; where it is not the test is skipped, or fails in CI.
func Gateway(tb testing.TB, buckets ...string) string {
	tb.Helper()
	program := installed(tb)
	for range 5 {
		if url := launch(tb, program); url != "" {
			client := Client(tb, url)
			for _, b := range buckets {
				if err := client.MakeBucket(tb.Context(), b, minio.MakeBucketOptions{Region: Region}); err != nil {
					tb.Fatal(err)
				}
			}
			return url
		}
	}
	tb.Fatal("Versity's gateway does not start")
	return ""
}

// installed returns the program of VERSITYGW, or else what setup.sh has installed.
func installed(tb testing.TB) string {
	tb.Helper()
	if given := os.Getenv("VERSITYGW"); given != "" {
		return given
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(cache, "batchfleet", "s3test")
	if _, err := os.Stat(filepath.Join(dir, "version")); err == nil {
		return filepath.Join(dir, "versitygw")
	}
	const advice = "Versity's gateway is not installed: run storage/s3/s3test/setup.sh, or set VERSITYGW to the program"
	if os.Getenv("CI") != "" {
		tb.Fatal(advice)
	}
	tb.Skip(advice)
	return ""
}

// launch starts the program on a port that was free a moment ago, and returns nothing if it
// is no longer.
func launch(tb testing.TB, program string) (url string) {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	// What it knows of an object beside its content is in a directory of its own: not every
	// file system has room for it beside the files.
	cmd := exec.CommandContext(ctx, program, "--port", addr, "--region", Region, "--quiet", "posix", "--sidecar", tb.TempDir(), tb.TempDir())
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		stop()
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed, or it says why
		close(ended)
	}()
	tb.Cleanup(func() {
		stop()
		<-ended
	})
	for range 600 {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close()
			return "http://" + addr
		}
		select {
		case <-ended:
			tb.Logf("Versity's gateway: %s", said.String())
			return ""
		case <-time.After(100 * time.Millisecond):
		}
	}
	tb.Fatal("Versity's gateway does not listen")
	return ""
}
