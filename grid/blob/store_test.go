package blob

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func put(t *testing.T, s *Store, seed uint64, n int) wire.Blob {
	t.Helper()
	data, b := content(t, seed, n)
	if err := s.Put(t.Context(), b.SHA256, b.Size, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestG70RestartKeepsBlobsOnly(t *testing.T) {
	s, dir := openStore(t, Options{})
	b := put(t, s, 1, 1000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, b.SHA256[:2], ".batchfleet-put-of-a-process-that-was-killed")
	if err := os.WriteFile(left, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := OpenStore(t.Context(), dir, Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n := files(t, dir); n != 1 || again.Used() != 1000 || len(stored(t, again, b)) != 1000 {
		t.Errorf("%d files, %d bytes", n, again.Used())
	}
}

func TestG70PutChecksDigestAndSize(t *testing.T) {
	s, dir := openStore(t, Options{Max: 2000})
	data, b := content(t, 1, 1000)
	short := s.Put(t.Context(), b.SHA256, 1000, bytes.NewReader(data[:999]))
	long := s.Put(t.Context(), b.SHA256, 1000, bytes.NewReader(append(data[:1000:1000], 'x')))
	other := s.Put(t.Context(), b.SHA256, 1000, bytes.NewReader(make([]byte, 1000)))
	large := s.Put(t.Context(), b.SHA256, 2001, bytes.NewReader(nil))
	if short == nil || !errors.Is(long, ErrDigest) || !errors.Is(other, ErrDigest) || large == nil {
		t.Errorf("short: %v\nlong: %v\nother: %v\nlarge: %v", short, long, other, large)
	}
	if _, _, err := s.Open(t.Context(), b.SHA256, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	if n := files(t, dir); n != 0 || s.Used() != 0 {
		t.Errorf("%d files and %d bytes are left", n, s.Used())
	}
}

func TestG70SweepDeletesOldBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := openStore(t, Options{})
		old, used := put(t, s, 1, 10), put(t, s, 2, 20)
		time.Sleep(12 * time.Hour)
		stored(t, s, used)
		time.Sleep(12 * time.Hour)
		if n, err := s.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("%d deleted, %v; want 1", n, err)
		}
		if _, ok := s.Size(old.SHA256); ok || files(t, dir) != 1 || s.Used() != 20 {
			t.Errorf("the old one is there %t, %d files, %d bytes", ok, files(t, dir), s.Used())
		}
		time.Sleep(25 * time.Hour)
		if n, err := s.Sweep(t.Context()); n != 1 || err != nil || files(t, dir) != 0 {
			t.Errorf("%d deleted, %v; want 1", n, err)
		}
	})
}

func TestG70FullStoreDeletesOldBlobsThenRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := openStore(t, Options{Quota: 100})
		first := put(t, s, 1, 40)
		time.Sleep(time.Hour)
		second := put(t, s, 2, 40)
		time.Sleep(time.Hour)
		third := put(t, s, 3, 60) // in the place of the first one
		if _, ok := s.Size(first.SHA256); ok || files(t, dir) != 2 {
			t.Errorf("the oldest one is there %t, %d files", ok, files(t, dir))
		}
		time.Sleep(time.Second)
		s.Size(second.SHA256) // a use
		data, b := content(t, 4, 1)
		err := s.Put(t.Context(), b.SHA256, b.Size, bytes.NewReader(data))
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != wire.CodeNoSpace {
			t.Errorf("with two blobs that were used just now: %v", err)
		}
		time.Sleep(time.Hour)
		put(t, s, 4, 1)
		if _, ok := s.Size(third.SHA256); ok || s.Used() != 41 {
			t.Errorf("the third one is there %t, %d bytes", ok, s.Used())
		}
	})
}

func TestG70InterruptedUploadExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := openStore(t, Options{})
		data, b := content(t, 1, 3*Chunk)
		begin := func() *upload {
			u, err := s.upload(t.Context(), "a", b.SHA256, b.Size)
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
		u := begin()
		if err := u.write(t.Context(), data[:Chunk]); err != nil {
			t.Fatal(err)
		}
		u.park()
		time.Sleep(KeepUpload - time.Second)
		if u = begin(); u.offset != Chunk {
			t.Fatalf("it goes on at %d", u.offset)
		}
		time.Sleep(2 * time.Second) // it is not given up now
		if err := u.write(t.Context(), data[Chunk:2*Chunk]); err != nil {
			t.Fatal(err)
		}
		u.park()
		if n := files(t, dir); n != 1 || s.Used() != 2*Chunk {
			t.Errorf("%d files, %d bytes", n, s.Used())
		}
		time.Sleep(KeepUpload + time.Second)
		synctest.Wait()
		if n := files(t, dir); n != 0 || s.Used() != 0 {
			t.Errorf("after %s: %d files, %d bytes", KeepUpload, n, s.Used())
		}
		if u = begin(); u.offset != 0 {
			t.Errorf("it goes on at %d", u.offset)
		}
		u.abort()
	})
}

func TestG70StoreIsPrivate(t *testing.T) {
	s, dir := openStore(t, Options{})
	put(t, s, 1, 10)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
