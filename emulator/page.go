package emulator

import (
	"encoding/base64"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// page sorts all by name and returns the page the client asked for and the token
// of the next page, "" when there is none. A token is the last name
// seen, so pages stay right while things are created and deleted.
func page[T any](all []T, name func(T) string, size int32, token string) ([]T, string, error) {
	if size < 0 {
		return nil, "", status.Errorf(codes.InvalidArgument, "invalid page_size %d: it must not be negative", size)
	}
	if size == 0 {
		size = defaultPage
	}
	size = min(size, maxPage)
	after, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, "", status.Errorf(codes.InvalidArgument, "invalid page_token %s", clip(token))
	}

	all = slices.DeleteFunc(all, func(v T) bool { return name(v) <= string(after) })
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	if len(all) <= int(size) {
		return all, "", nil
	}
	all = all[:size]
	return all, base64.RawURLEncoding.EncodeToString([]byte(name(all[size-1]))), nil
}
