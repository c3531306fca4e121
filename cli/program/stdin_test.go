package program

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
)

func TestF63StandardInputEndsWithTheContext(t *testing.T) {
	read, write, err := os.Pipe() // whose other end stays open
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdin
	os.Stdin = read
	t.Cleanup(func() {
		os.Stdin = was
		write.Close()
		read.Close()
	})
	ctx, cancel := context.WithCancel(t.Context())
	in := Stdin(ctx)
	defer in.Close()
	if _, err := write.WriteString("half a tok"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(in, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = io.ReadAll(in)
	if err == nil {
		t.Error("what never ends was read to its end")
	}
	for code, want := range map[int]struct {
		ctx context.Context
		err error
	}{0: {t.Context(), nil}, Usage: {t.Context(), errors.New("it is empty")}, Interrupted: {ctx, err}} {
		got := Mistake(want.ctx, want.err)
		if coded, _ := errors.AsType[ExitError](got); coded.Code != code || (got == nil) != (want.err == nil) {
			t.Errorf("%v is %v with exit code %d, want %d", want.err, got, coded.Code, code)
		}
	}
}
