package exec

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// maxInline is more than an archive can have in a frame, where it is in base64.
const maxInline = wire.MaxFrame / 4 * 3

// conclude makes the result of an attempt that has ended with err, or returns why there is none.
func (a *attempt) conclude(ctx context.Context, err error) error {
	if !isResult(err) {
		return err
	}
	if !a.started {
		a.settle(err)
		return nil
	}
	if ctx.Err() != nil { // the worker's limit
		ctx = context.WithoutCancel(ctx)
	}
	files, wrong := a.newFiles()
	if !isResult(wrong) {
		return wrong
	}
	if err = cmp.Or(err, wrong); a.kind != nil {
		files, err = a.keepOutputs(files, err)
	}
	a.settle(err)
	if wrong = a.keep(ctx, files); !isResult(wrong) {
		return wrong
	}
	if err == nil && wrong != nil {
		a.settle(wrong)
	}
	return nil
}

// keep puts files and streams into the result, or into the storage if they do not fit. The result has been settled.
func (a *attempt) keep(ctx context.Context, files []entry) error {
	streams := a.streamFiles()
	for {
		all := append(streams, files...)
		if len(all) == 0 {
			return nil
		}
		if err := a.pack(ctx, all); err != nil {
			return cmp.Or(context.Cause(ctx), ownDisk(err))
		}
		if a.fits() {
			a.result.OutputArchive = a.archive.buf.Bytes()
			return nil
		}
		if a.Store != nil {
			return a.store(ctx)
		}
		if len(streams) == 0 {
			return tooMuch("the files it left are too large for a frame, and this worker has no storage for them")
		}
		streams = nil // the result has their beginning and end, and a mark that this is not all
	}
}

// fits reports whether the archive fits into the frame of the result.
func (a *attempt) fits() bool {
	if a.archive.file != nil {
		return false
	}
	room := MaxResult(a.Request.ClientID) - base64.StdEncoding.EncodedLen(a.archive.buf.Len())
	const most, fixed = 6, 64 << 10 // what a byte of text may become; the rest
	if room > most*(len(a.result.Stdout)+len(a.result.Stderr)+len(a.result.Message))+fixed {
		return true
	}
	text, err := Encode(&a.result)
	return err == nil && len(text) <= room+len("null")-len(`""`)
}

// store gives the archive to the storage.
func (a *attempt) store(ctx context.Context) error {
	path, err := a.archive.toFile()
	if err != nil {
		return ownDisk(err)
	}
	within, cancel := a.transferTime(ctx)
	defer cancel()
	blob, err := a.Store(within, path, archiveName)
	switch {
	case err != nil && ctx.Err() == nil && within.Err() != nil:
		return &failed{wire.ReasonError, fmt.Sprintf("what the program has left was not stored within %s: %v", a.timeout(), err)}
	case errors.Is(err, errors.ErrUnsupported):
		return &failed{wire.ReasonError, fmt.Sprintf("what the program has left cannot be stored: %v", err)}
	case err != nil:
		return cmp.Or(context.Cause(ctx), unavailable(fmt.Errorf("store the archive: %w", err)))
	}
	a.result.Artifacts = append(a.result.Artifacts, blob)
	return nil
}
