package pubsub

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrUnreachable means that there is no connection to Pub/Sub.
var ErrUnreachable = errors.New("cannot reach Pub/Sub")

// unreachable is a status of gRPC that says why there is no connection, in fewer words.
type unreachable struct {
	text   string
	status error
}

func (u unreachable) Error() string   { return u.text }
func (u unreachable) Unwrap() []error { return []error{ErrUnreachable, u.status} }

// shorten returns err, in our words if it says that there is no connection.
func shorten(err error) error {
	_, quoted, found := strings.Cut(status.Convert(err).Message(), "connection error: desc = ")
	if !found || status.Code(err) != codes.Unavailable {
		return err
	}
	why := quoted
	if literal, bad := strconv.QuotedPrefix(quoted); bad == nil {
		why, _ = strconv.Unquote(literal)
	}
	for _, layer := range []string{"transport: ", "Error while dialing: ", "dial tcp: ", "dial tcp "} {
		why = strings.TrimPrefix(why, layer)
	}
	if addr, cause, ok := strings.Cut(why, ": connect: "); ok {
		return unreachable{fmt.Sprintf("%v at %s: %s", ErrUnreachable, addr, cause), err}
	}
	return unreachable{fmt.Sprintf("%v: %s", ErrUnreachable, why), err}
}
