package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/command"
)

// sh returns a command that runs a script and prints its answers.
func sh(script string) *command.Command {
	return &command.Command{
		Path: "/bin/sh", Args: []string{"-c", script},
		Env: []string{"PATH=/usr/bin:/bin"}, // nothing is inherited
		Line: func(line []byte) error {
			fmt.Printf("%s\n", line)
			return nil
		},
		Limits: command.Limits{Wall: time.Minute, OutputBytes: 1 << 16},
	}
}

func Example() {
	ctx := context.Background()
	upper := sh(`tr a-z A-Z`)
	upper.Stdin = strings.NewReader("one line\nand another\n")
	if _, err := upper.Run(ctx); err != nil {
		log.Fatal(err)
	}

	// What goes wrong is an ExitError that says why the process ended.
	for _, script := range []string{`echo no such file >&2; exit 3`, `kill -9 $$`} {
		_, err := sh(script).Run(ctx)
		if exit, ok := errors.AsType[*command.ExitError](err); ok {
			fmt.Printf("%s, code %d %q\n", exit.Reason, exit.Code, exit.Stderr)
		}
	}
	// Output:
	// ONE LINE
	// AND ANOTHER
	// exited, code 3 "no such file\n"
	// signaled, code -1 ""
}

// A session answers several requests with one process.
func ExampleSession() {
	ctx := context.Background()
	counter := sh(`while read -r words; do for w in $words; do echo "word $w"; done; echo end; done`)
	counter.Line = nil
	session, err := counter.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for _, request := range []string{"a few\n", "more\n"} {
		err := session.Do(ctx, []byte(request), time.Minute, func(line []byte) (last bool, err error) {
			fmt.Printf("%s\n", line)
			return bytes.Equal(line, []byte("end")), nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// word a
	// word few
	// end
	// word more
	// end
}
