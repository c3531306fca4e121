package access

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/batchfleet/batchfleet/flock"
	"github.com/batchfleet/batchfleet/safefile"
)

// A file of tokens belongs to the server: many entries with hashes, which others may
// read. The token file of package gateway is another: it holds one worker's secret.

// ReadTokens returns the entries of a file of tokens.
func ReadTokens(file string) ([]Token, error) {
	text, err := ReadTokenFile(file)
	if err != nil {
		return nil, err
	}
	tokens, err := ParseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("read tokens (%s): %w", file, err)
	}
	return tokens, nil
}

// ReadTokenFile returns the text of a file of tokens, which others may not write.
func ReadTokenFile(file string) ([]byte, error) {
	text, err := safefile.Secret(file, maxTokenFile, safefile.OthersWrite)
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	return text, nil
}

// AddToken makes a token and adds its entry to a file, which is made if there is
// none. The token is returned and kept nowhere. A zero expires is never. Servers
// see the file as it was or with the entry, never a part.
func AddToken(file, name string, scope Scope, expires time.Time) (token string, err error) {
	switch {
	case CheckTokenName(name) != nil:
		return "", fmt.Errorf("add token: %w", CheckTokenName(name))
	case scope < Read || scope > Admin:
		return "", fmt.Errorf("add token: %s is no scope", scope)
	case !expires.IsZero() && !expires.After(time.Now()):
		return "", errors.New("add token: its end has passed already")
	}
	token, _ = NewToken()
	entry := Token{Name: name, Scope: scope, Hash: sha256.Sum256([]byte(token)), Expires: expires}
	err = editTokens(file, func(text []byte) ([]byte, error) {
		n := 0
		for line := range bytes.Lines(text) {
			n++
			if t, ok, _ := parseToken(string(line)); ok && t.Name == name {
				return nil, fmt.Errorf("line %d: %w: revoke it first", n, errTokenName)
			}
		}
		if len(text) > 0 && text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		return append(text, entry.line()...), nil
	})
	if err != nil {
		return "", fmt.Errorf("add token %s to %s: %w", name, file, err)
	}
	return token, nil
}

// RevokeToken takes the entry of that name out of a file. The error wraps
// [fs.ErrNotExist] when there is none.
func RevokeToken(file, name string) error {
	err := editTokens(file, func(text []byte) ([]byte, error) {
		var rest []byte
		found := false
		for line := range bytes.Lines(text) {
			if t, ok, _ := parseToken(string(line)); ok && t.Name == name {
				found = true
				continue
			}
			rest = append(rest, line...)
		}
		if !found {
			return nil, fmt.Errorf("no such name: %w", fs.ErrNotExist)
		}
		return rest, nil
	})
	if err != nil {
		return fmt.Errorf("revoke token %.64q in %s: %w", name, file, err)
	}
	return nil
}

// editTokens replaces a file of tokens by what edit makes of it, if both can be
// read. FILE.lock keeps two editors apart; the file itself is a new one each time.
func editTokens(file string, edit func([]byte) ([]byte, error)) error {
	lock, err := safefile.OpenOrMake(file + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := flock.Lock(lock); err != nil {
		return err
	}
	text, err := ReadTokenFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := ParseTokens(text); err != nil {
		return fmt.Errorf("it cannot be read as it is: %w", err)
	}
	text, err = edit(text)
	if err != nil {
		return err
	}
	if _, err := ParseTokens(text); err != nil { // too many
		return err
	}
	return safefile.Replace(file, text)
}
