package agent

import (
	"net/url"
	"time"
)

// Redacted returns an address without the password in it.
func Redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return u.Redacted()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
