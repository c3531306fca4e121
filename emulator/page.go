package emulator

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A pageRequest is a request for one page of a list.
type pageRequest interface {
	GetPageSize() int32
	GetPageToken() string
}

// pageOf is page of those of all that belong to a project, projects/{project}.
func pageOf[T any](project string, all []T, name func(T) string, req pageRequest) ([]T, string, error) {
	if err := checkParent(project); err != nil {
		return nil, "", err
	}
	return page(slices.DeleteFunc(all, func(v T) bool { return !strings.HasPrefix(name(v), project+"/") }), name, req)
}

// page sorts all by name and returns the page the client asked for and the token
// of the next page, "" when there is none. A token is the last name
// seen, so pages stay right while things are created and deleted.
func page[T any](all []T, name func(T) string, req pageRequest) ([]T, string, error) {
	if req.GetPageSize() < 0 {
		return nil, "", status.Errorf(codes.InvalidArgument, "invalid page_size %d: it must not be negative", req.GetPageSize())
	}
	size := min(cmp.Or(req.GetPageSize(), defaultPage), maxPage)
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, "", status.Errorf(codes.InvalidArgument, "invalid page_token %s", clip(req.GetPageToken()))
	}

	all = slices.DeleteFunc(all, func(v T) bool { return name(v) <= string(after) })
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	if len(all) <= int(size) {
		return all, "", nil
	}
	all = all[:size]
	return all, base64.RawURLEncoding.EncodeToString([]byte(name(all[size-1]))), nil
}
