package pubsub

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestF63NoConnectionIsSaidWithoutTheLayersOfGRPC(t *testing.T) {
	tests := []struct {
		name    string
		code    codes.Code
		message string
		want    string
		reached bool
	}{
		{
			"nothing listens", codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:8085: connect: connection refused"`,
			"cannot reach Pub/Sub at 127.0.0.1:8085: connection refused", false,
		},
		{
			"nothing listens at an address of IPv6", codes.Unavailable, `last connection error: connection error: desc = "transport: Error while dialing: dial tcp [::1]:1: connect: connection refused"`,
			"cannot reach Pub/Sub at [::1]:1: connection refused", false,
		},
		{
			"an unknown host", codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp: lookup nowhere: no such host"`,
			"cannot reach Pub/Sub: lookup nowhere: no such host", false,
		},
		{
			"another server listens", codes.Unavailable, `connection error: desc = "error reading server preface: EOF"`,
			"cannot reach Pub/Sub: error reading server preface: EOF", false,
		},
		{"the service is overloaded", codes.Unavailable, "try again", "rpc error: code = Unavailable desc = try again", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := translate("look at topic t", status.Error(tt.code, tt.message))
			if want := "look at topic t: infrastructure unavailable: " + tt.want; err.Error() != want {
				t.Errorf("got %q, want %q", err, want)
			}
			if !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, ErrUnreachable) == tt.reached || status.Code(err) != tt.code {
				t.Errorf("%v: unavailable %v, unreachable %v, code %v", err, errors.Is(err, jobs.ErrUnavailable), errors.Is(err, ErrUnreachable), status.Code(err))
			}
		})
	}
}
