package settings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/safefile"
)

// maxToken bounds the file of a token, in bytes.
const maxToken = 4096

// ReadToken returns the token that is alone in a file; - is standard input, until ctx
// ends. Its errors do not quote what is there.
func ReadToken(ctx context.Context, file string) (string, error) {
	text, err := readToken(ctx, file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	const want = "want one line with a token and nothing else"
	switch {
	case len(text) > maxToken:
		return "", fmt.Errorf("it is longer than %d bytes: %s", maxToken, want)
	case token == "":
		return "", errors.New("it is empty")
	case strings.ContainsAny(token, " \t\r\n"):
		return "", fmt.Errorf("it has more than one word: %s", want)
	}
	return token, nil
}

func readToken(ctx context.Context, file string) ([]byte, error) {
	if file == "-" {
		in := program.Stdin(ctx)
		defer in.Close()
		return io.ReadAll(io.LimitReader(in, maxToken+1))
	}
	return safefile.Secret(file, maxToken, safefile.OthersWrite)
}
