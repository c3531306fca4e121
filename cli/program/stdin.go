package program

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Stdin returns standard input, until ctx ends: whoever is asked for something by mistake
// can leave with Ctrl-C.
func Stdin(ctx context.Context) io.ReadCloser {
	return Interruptible(ctx, func() (io.ReadCloser, error) { return io.NopCloser(os.Stdin), nil })
}

// Interruptible returns what can be read from what open opens, until ctx ends. Its errors do
// not name the file. An open or a read that never returns keeps a goroutine: a pipe may have
// no writer.
func Interruptible(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	read, write := io.Pipe()
	context.AfterFunc(ctx, func() { _ = read.CloseWithError(context.Cause(ctx)) })
	go func() {
		r, err := open()
		if err == nil {
			_, err = io.Copy(write, r)
			err = errors.Join(err, r.Close())
		}
		_ = write.CloseWithError(WithoutPath(err))
	}()
	return read
}

// WithoutPath drops the path that an error of a file names.
func WithoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// Mistake gives an error the exit code of wrong arguments, unless ctx has ended and with it
// the reading of one.
func Mistake(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return Coded(ctx, err)
	}
	return Exit(Usage, err)
}
