package jobapi

import (
	"errors"
	"net/http"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// Loopback allows callers on the same machine everything, without a token: those of
// [httpd.SameMachine].
var Loopback = &Guard{judge: func(r *http.Request, _ access.Scope) (access.Token, error) {
	if why, ok := errors.AsType[httpd.OriginError](httpd.SameMachine(r)); ok {
		return access.Token{}, denied(string(why), http.StatusForbidden,
			"Without tokens the Job API is open only to callers on the same machine, and of this request one cannot say so: "+why.Error())
	}
	return access.Token{Name: "loopback", Scope: access.Admin}, nil
}}
