package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Client puts and gets blobs over one connection whose other end has a [Server]. Close must be called when the connection has ended. Its methods may be
// called concurrently; at most 8 transfers run at once, and others wait.
type Client struct {
	send  func(...wire.Frame) error
	slots chan struct{}
	out   *sender
	in    *receiver
	ended chan struct{}
	once  sync.Once
}

var errEarly = refuse(wire.CodeProtocol, "the peer has ended the transfer before its end")

// NewClient returns a client that sends frames by send, which must not wait and must fail once the connection has ended.
func NewClient(send func(...wire.Frame) error) *Client {
	send = closing(send)
	return &Client{
		send: send, slots: make(chan struct{}, clientLimit), ended: make(chan struct{}),
		out: &sender{send: send, all: map[wire.GUID]*outgoing{}}, in: &receiver{all: map[wire.GUID]*incoming{}},
	}
}

// Handle processes a BlobBegin, BlobChunk or BlobEnd of the peer, and does not wait. After an error the caller must close the connection.
func (c *Client) Handle(f wire.Frame) error {
	switch f.Type { //nolint:exhaustive // the others are not for us
	case wire.BlobChunk:
		return c.in.chunk(f)
	case wire.BlobBegin:
		var b begin
		if err := read(f, &b); err != nil {
			return err
		}
		c.out.ack(f.CorrID, b.Offset) // no transfer has the zero id
	case wire.BlobEnd:
		var e Error
		if err := read(f, &e); err != nil {
			return err
		}
		var result error
		if e.Code != "" {
			result = &e
		}
		if !c.out.end(f.CorrID, result) {
			c.in.end(f.CorrID, cmp.Or(result, error(errEarly)))
		}
	}
	return nil
}

// enter waits until one of the transfers at once is free; leave frees it.
func (c *Client) enter(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-c.ended:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) leave() { <-c.slots }

// Put makes the peer store a blob, unless it has the blob, and waits until the blob survives a power cut. The error is an [*Error] if the peer refuses
// the blob, [ErrStalled], [ErrClosed], or the cause of ctx. After ErrClosed, Put over the next connection goes on where this one was. After the end of ctx
// content may still be read for a moment.
func (c *Client) Put(ctx context.Context, b wire.Blob, content io.ReaderAt) error {
	if err := Check(b.SHA256, b.Size); err != nil {
		return err
	}
	if err := c.enter(ctx); err != nil {
		return fmt.Errorf("put blob %s: %w", b.SHA256, err)
	}
	defer c.leave()
	id := wire.NewGUID()
	result := make(chan error, 1)
	c.out.start(&outgoing{
		id: id, size: b.Size, offer: true,
		open: func(offset int64) (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(content, offset, b.Size-offset)), nil
		},
		ended: func(err error) { result <- err },
	})
	err := c.send(beginFrame(id, begin{SHA256: b.SHA256, Size: b.Size}))
	if err != nil {
		c.out.end(id, err)
	}
	select {
	case err = <-result:
	case <-ctx.Done():
		c.out.end(id, context.Cause(ctx))
		err = <-result // it may have ended at the same moment
	}
	if err == nil {
		return nil
	}
	c.tell(id, err)
	return fmt.Errorf("put blob %s: %w", b.SHA256, err)
}

// tell ends a transfer at the peer, unless err comes from the peer or the connection has ended.
func (c *Client) tell(id wire.GUID, err error) {
	if _, theirs := errors.AsType[*Error](err); !theirs && !errors.Is(err, ErrClosed) {
		_ = c.send(endFrame(id, refuse(wire.CodeBusy, "%v", err))) // otherwise the connection has ended
	}
}

// Get downloads a blob. The error is an [*Error] if the peer refuses, wraps [ErrDigest] if the content is another one, [ErrStalled], [ErrClosed], the cause of
// ctx, or the error of the download's writer. After [ErrClosed], Get with the same download and the client of the next connection goes on where this one was.
func (c *Client) Get(ctx context.Context, d *Download) error {
	if err := Check(d.blob.SHA256, d.blob.Size); err != nil {
		return err
	}
	if err := c.get(ctx, d); err != nil {
		return fmt.Errorf("get blob %s: %w", d.blob.SHA256, err)
	}
	return nil
}

func (c *Client) get(ctx context.Context, d *Download) error {
	if d.failed != nil {
		return d.failed
	}
	if d.offset == d.blob.Size {
		return d.check()
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	in, err := c.in.add(wire.NewGUID(), d.blob.Size, clientLimit)
	if err != nil {
		return err
	}
	defer c.in.remove(in)
	c.in.begin(in, d.offset)
	if err := c.send(beginFrame(in.id, begin{SHA256: d.blob.SHA256, Size: d.blob.Size, Offset: d.offset, Want: true})); err != nil {
		return err
	}
	stall := time.NewTimer(StallLimit)
	defer stall.Stop()
	for d.offset < d.blob.Size {
		var err error
		select {
		case chunk := <-in.chunks:
			if err = d.write(chunk); err == nil {
				c.in.taken(in, len(chunk))
				err = c.send(ackFrame(in.id, d.offset))
			}
			stall.Reset(StallLimit)
		case <-in.ended:
			err = in.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-stall.C:
			err = ErrStalled
		}
		if err != nil {
			c.tell(in.id, err)
			return err
		}
	}
	return d.check()
}

// Close ends all transfers with [ErrClosed].
func (c *Client) Close() {
	c.once.Do(func() { close(c.ended) })
	c.in.close()
	c.out.close()
}
