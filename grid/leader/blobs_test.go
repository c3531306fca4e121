package leader_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testnet"
)

var withBlobs = append(slices.Clone(every), wire.FeatureBlob)

// startWithBlobs runs a leader that keeps blobs, in a directory.
func startWithBlobs(t *testing.T) (r *rig, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "blobs")
	store, err := blob.OpenStore(t.Context(), dir, blob.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return start(t, &leader.Leader{Blobs: store}), dir
}

// blobs carries blobs over a connection, which receives nothing else meanwhile.
func (e *end) blobClient() *blob.Client {
	c := blob.NewClient(e.Send)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		for {
			f, err := e.Receive()
			if err == nil {
				err = c.Handle(f)
			}
			if err != nil {
				return
			}
		}
	})
	e.t.Cleanup(func() {
		e.Abort(net.ErrClosed)
		receiving.Wait()
		c.Close()
	})
	return c
}

func contentOf(t *testing.T, n int, seed byte) ([]byte, wire.Blob) {
	t.Helper()
	data := bytes.Repeat([]byte{seed, 1, 2, 3}, n/4)
	b, err := blob.Sum(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return data, b
}

// withBlob is a SubmitJob whose input is a blob.
func withBlob(t *testing.T, b wire.Blob) wire.Frame {
	t.Helper()
	q := wire.JobRequest{JobID: wire.NewGUID(), ClientID: "clientA", ExecName: "calcA", Files: []wire.InputFile{{Name: "in", Blob: &b}}}
	text, err := wire.MarshalRequest(&q)
	if err != nil {
		t.Fatal(err)
	}
	return wire.Frame{Type: wire.SubmitJob, MsgID: q.JobID, Subject: wire.SubmitSubject("calcA"), Payload: text}
}

func wantInvalid(t *testing.T, f wire.Frame, id wire.GUID, why string) {
	t.Helper()
	var info wire.ErrorInfo
	if err := json.Unmarshal(f.Payload, &info); err != nil || f.Type != wire.Error || f.CorrID != id || info.Code != wire.CodeInvalid || !strings.Contains(info.Message, why) {
		t.Errorf("the client is sent %s %s, want %s with %q", f.Type, f.Payload, wire.CodeInvalid, why)
	}
}

func TestG70JobNeedsItsBlobs(t *testing.T) {
	r, _ := startWithBlobs(t)
	client, worker := r.client("clientA", 1, withBlobs...), r.worker(1, every...)
	data, b := contentOf(t, 600_000, 7)
	early := withBlob(t, b)
	client.send(early)
	wantInvalid(t, client.next(), early.MsgID, "send it first")
	if err := r.client("clientA", 1, withBlobs...).blobClient().Put(t.Context(), b, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	wrong, elsewhere := b, b
	wrong.Size++
	elsewhere.Ref = "s3://bucket/key"
	for why, b := range map[string]wire.Blob{"600000 bytes": wrong, "where no worker can get it": elsewhere} {
		submit := withBlob(t, b)
		client.send(submit)
		wantInvalid(t, client.next(), submit.MsgID, why)
	}
	submit := withBlob(t, b)
	client.send(submit)
	if f := client.next(); f.Type != wire.SubmitAck {
		t.Errorf("a job whose blob is there is answered with %s %s", f.Type, f.Payload)
	}
	if f := worker.next(); f.MsgID != submit.MsgID {
		t.Errorf("the worker is sent %s %s", f.Type, f.MsgID)
	}
}

// keptBlobs runs a leader with a directory, and a clock of its own.
func keptBlobs(t *testing.T, dir string, quota int64) *rig {
	t.Helper()
	store, err := blob.OpenStore(t.Context(), filepath.Join(dir, "blobs"), blob.Options{Log: slog.New(slog.DiscardHandler), Quota: quota, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	pipes := testnet.NewPipes()
	r := startOn(t, &leader.Leader{Blobs: store, Dir: dir}, pipes)
	r.pipes = pipes
	stop := r.stop
	r.stop = sync.OnceValue(func() error { return errors.Join(stop(), store.Close()) })
	t.Cleanup(func() { _ = r.stop() }) // it is told by start
	return r
}

func TestG70BlobsAreKeptWhileAJobNeedsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := keptBlobs(t, dir, 1000)
		has := func(b wire.Blob) bool {
			f, _, err := r.Blobs.Open(t.Context(), b.SHA256, 0) // counts as a use
			if err == nil {
				_ = f.Close()
			}
			return err == nil
		}
		put := func(data []byte, b wire.Blob) error {
			return r.Blobs.Put(t.Context(), b.SHA256, b.Size, bytes.NewReader(data))
		}
		data, needed := contentOf(t, 600, 1)
		otherData, other := contentOf(t, 400, 2)
		if err := errors.Join(put(data, needed), put(otherData, other)); err != nil {
			t.Fatal(err)
		}
		submit := withBlob(t, needed)
		client := r.client("clientA", 1, wire.FeatureSubmitAck)
		client.send(submit)
		if f := client.next(); f.Type != wire.SubmitAck {
			t.Fatalf("the job is answered with %s %s", f.Type, f.Payload)
		}
		client.Abort(net.ErrClosed)
		time.Sleep(66 * time.Minute)
		if has(other) {
			t.Error("a blob that no job needs is not deleted")
		}
		if err := put(contentOf(t, 404, 3)); err == nil {
			t.Error("a blob has taken the place of one that a job needs")
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		past := time.Now() // the clock of the disk is another one
		if err := os.Chtimes(filepath.Join(dir, "blobs", needed.SHA256[:2], needed.SHA256[2:]), past, past); err != nil {
			t.Fatal(err)
		}
		time.Sleep(66 * time.Minute)
		r = keptBlobs(t, dir, 1000)
		if err := put(contentOf(t, 404, 3)); err == nil {
			t.Error("after a restart, a blob has taken the place of one that a job needs")
		}
		time.Sleep(66 * time.Minute)
		worker := r.worker(1, wire.FeatureResultAck)
		assign := worker.next()
		if assign.MsgID != submit.MsgID || !has(needed) {
			t.Errorf("the worker is sent %s %s; its blob is there: %t", assign.Type, assign.MsgID, has(needed))
		}
		worker.send(ok(assign))
		if f := worker.next(); f.Type != wire.ResultAck {
			t.Errorf("the result is answered with %s %s", f.Type, f.Payload)
		}
		worker.Abort(net.ErrClosed)
		time.Sleep(66 * time.Minute)
		if has(needed) {
			t.Error("the blob of a job that has ended is not deleted")
		}
	})
}

func TestG70LeaderWithoutBlobsRefusesThem(t *testing.T) {
	r := start(t, &leader.Leader{})
	e := r.dial()
	text, err := json.Marshal(wire.ClientConfig{ClientID: "clientA", Features: withBlobs})
	if err != nil {
		t.Fatal(err)
	}
	e.send(wire.Frame{Type: wire.HelloClient, Subject: "clientA", Payload: text})
	var welcome wire.WelcomeInfo
	if f := e.next(); json.Unmarshal(f.Payload, &welcome) != nil || slices.Contains(welcome.Features, wire.FeatureBlob) || len(welcome.Features) == 0 {
		t.Errorf("the features are %q", welcome.Features)
	}
	_, b := contentOf(t, 4, 1)
	submit := withBlob(t, b)
	e.send(wire.Frame{Type: wire.BlobBegin, MsgID: wire.NewGUID(), Payload: []byte(`{"Size":1}`)}, submit) // the first one is ignored
	wantInvalid(t, e.next(), submit.MsgID, "keeps no blobs")
}

func TestG70BadDigestsAreRefused(t *testing.T) {
	r, dir := startWithBlobs(t)
	e := r.client("clientA", 1, withBlobs...)
	for _, digest := range []string{"", "../../../../etc/passwd", strings.Repeat("A", 64), strings.Repeat("../", 21) + "x", strings.Repeat("a", 63) + "\x00"} {
		for _, want := range []string{"", `,"Want":true`} {
			name, err := json.Marshal(digest)
			if err != nil {
				t.Fatal(err)
			}
			id := wire.NewGUID()
			e.send(wire.Frame{Type: wire.BlobBegin, MsgID: id, Payload: []byte(`{"Sha256":` + string(name) + `,"Size":10` + want + `}`)})
			f := e.next()
			var info wire.ErrorInfo
			if err := json.Unmarshal(f.Payload, &info); err != nil || f.Type != wire.BlobEnd || f.CorrID != id || info.Code != wire.CodeInvalid {
				t.Errorf("digest %q is answered with %s %s", digest, f.Type, f.Payload)
			}
		}
	}
	data, b := contentOf(t, 300_000, 1)
	data[len(data)-1]++
	if err := e.blobClient().Put(t.Context(), b, bytes.NewReader(data)); err == nil {
		t.Error("another content than that of the digest is taken")
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.works()
}

func TestG70TransfersDoNotDelayFrames(t *testing.T) {
	r, _ := startWithBlobs(t)
	const each, transfers = 20 << 20, 4
	var asks []wire.Frame
	for n := range transfers {
		data, b := contentOf(t, each, byte(n))
		if err := r.Blobs.Put(t.Context(), b.SHA256, b.Size, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{"Sha256": b.SHA256, "Size": b.Size, "Offset": 0, "Want": true})
		if err != nil {
			t.Fatal(err)
		}
		asks = append(asks, wire.Frame{Type: wire.BlobBegin, MsgID: wire.NewGUID(), Payload: text})
	}
	// Package link would answer and hide what is looked at here.
	conn := r.raw()
	reader := wire.NewReader(conn)
	send := func(frames ...wire.Frame) {
		t.Helper()
		for _, f := range frames {
			if _, err := conn.Write(f.Append(nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := map[wire.GUID]int64{} // bytes of each transfer
	next := func() wire.Frame {
		t.Helper()
		f, err := reader.Read()
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == wire.BlobChunk {
			got[f.CorrID] += int64(len(f.Payload))
		}
		return f
	}
	acknowledge := func(f wire.Frame) {
		text, err := json.Marshal(map[string]any{"Offset": got[f.CorrID]})
		if err != nil {
			t.Fatal(err)
		}
		send(wire.Frame{Type: wire.BlobBegin, CorrID: f.CorrID, Payload: text})
	}
	text, err := json.Marshal(wire.ClientConfig{ClientID: "clientA", DesiredParallelism: 100, Features: withBlobs})
	if err != nil {
		t.Fatal(err)
	}
	send(wire.Frame{Type: wire.HelloClient, Subject: "clientA", Payload: text})
	send(asks...)
	for round := range 10 {
		for chunks := 0; chunks < 20; {
			if f := next(); f.Type == wire.BlobChunk {
				acknowledge(f)
				chunks++
			}
		}
		question, answer := wire.Frame{Type: wire.Ping, MsgID: wire.NewGUID()}, wire.Pong
		if round%2 == 1 {
			_, question = submission("clientA", "calcA")
			answer = wire.SubmitAck
		}
		send(question)
		var unacknowledged []wire.Frame
		behind := 0
		for f := next(); f.Type != answer; f = next() {
			if f.Type == wire.BlobChunk {
				behind += len(f.Payload)
				unacknowledged = append(unacknowledged, f)
			}
		}
		if behind > blob.Window {
			t.Errorf("%s has waited behind %d bytes, at most %d", answer, behind, blob.Window)
		}
		seen := map[wire.GUID]bool{}
		for _, f := range slices.Backward(unacknowledged) {
			if !seen[f.CorrID] {
				acknowledge(f)
			}
			seen[f.CorrID] = true
		}
	}
}
