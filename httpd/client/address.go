package client

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
)

// ParseBase checks the address of a server that is sent a token: https, or http to
// this machine, with a path but nothing else. server and token are what an error
// calls the two: "gateway", "the worker's token". An error never repeats what may be
// a password.
func ParseBase(server, token, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%s address is not a URL: write https://host, with a port and a path where there is one", server)
	}
	bad := func(problem string) error {
		if u.Host == "" { // what there is may be anything
			return fmt.Errorf("%s address %s", server, problem)
		}
		return fmt.Errorf("%s address %s %s", server, &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}, problem)
	}
	switch {
	case u.User != nil:
		return nil, bad("must not hold a user or password: " + token + " is all it needs")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, bad("must begin with https://")
	case u.Hostname() == "":
		return nil, bad("names no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, bad("must not have a query or a fragment")
	case u.Scheme == "http" && !httpd.IsLoopback(u.Hostname()):
		return nil, bad("must begin with https://: by plain http anyone on the way could read " + token + " (http is for this machine only)")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}
