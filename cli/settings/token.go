package settings

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/safefile"
)

// maxToken bounds the file of a token, in bytes.
const maxToken = 4096

// ReadToken returns the token that is alone in a file; - is standard input, until ctx
// ends. Its errors name the file and do not quote what is there.
func ReadToken(ctx context.Context, file string) (string, error) {
	text, err := readToken(ctx, file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	const want = "want one line with a token and nothing else"
	if file == "-" {
		file = "standard input"
	}
	switch {
	case len(text) > maxToken:
		return "", fmt.Errorf("%s is longer than %d bytes: %s", file, maxToken, want)
	case token == "":
		return "", fmt.Errorf("%s is empty: %s", file, want)
	case strings.ContainsAny(token, " \t\r\n"):
		return "", fmt.Errorf("%s has more than one word: %s", file, want)
	}
	return token, nil
}

// ReadTokens is ReadToken for a file that has up to n tokens, one a line.
func ReadTokens(ctx context.Context, file string, n int) ([]string, error) {
	text, err := readToken(ctx, file)
	if err != nil {
		return nil, err
	}
	tokens := strings.Fields(string(text))
	if len(text) > maxToken || len(tokens) == 0 || len(tokens) > n {
		return nil, fmt.Errorf("in %s there must be 1 to %d lines with a token each, and nothing else", file, n)
	}
	return tokens, nil
}

func readToken(ctx context.Context, file string) ([]byte, error) {
	if file == "-" {
		in := program.Stdin(ctx)
		defer in.Close()
		return io.ReadAll(io.LimitReader(in, maxToken+1))
	}
	return safefile.Secret(file, maxToken, safefile.OthersWrite)
}
