package client

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// ParseEndpoints reads the arguments of a client of several leaders: HOST:PORT of each, then optionally the total, which is how many jobs
// may run at once on all of them together; DefaultDesired if it is left out. An IPv6 address must be in brackets. The error has all
// mistakes.
func ParseEndpoints(args []string) (leaders []string, total int, err error) {
	total = DefaultDesired
	var errs []error
	if n := len(args) - 1; n >= 0 && isNumber(args[n]) {
		most := maxDesired(n)
		total, err = strconv.Atoi(args[n])
		if err != nil || total < 1 || total > most {
			errs = append(errs, fmt.Errorf("total %.40q must be 1 to %d, which is %d for each leader", args[n], most, wire.MaxClientCap))
		}
		args = args[:n]
	}
	errs = append(errs, checkLeaders(args)...)
	if err := errors.Join(errs...); err != nil {
		return nil, 0, err
	}
	return args, total, nil
}

// checkLeaders returns what is wrong with the addresses of leaders.
func checkLeaders(all []string) (errs []error) {
	if len(all) == 0 || len(all) > MaxLeaders {
		return []error{fmt.Errorf("%d leaders are given, must be 1 to %d, each as HOST:PORT", len(all), MaxLeaders)}
	}
	seen := map[string]bool{}
	for _, address := range all {
		if err := checkEndpoint(address); err != nil {
			errs = append(errs, fmt.Errorf("leader %.300q: %w", address, err))
		} else if seen[address] {
			errs = append(errs, fmt.Errorf("leader %s is given twice", address))
		}
		seen[address] = true
	}
	return errs
}

// isNumber reports whether an argument is a number. Addresses are not: each has a colon.
func isNumber(arg string) bool {
	digits := strings.TrimLeft(arg, "+-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// maxHost is the length of the longest DNS name, in bytes.
const maxHost = 253

func checkEndpoint(arg string) error {
	host, port, err := net.SplitHostPort(arg)
	if err != nil {
		if reason, ok := errors.AsType[*net.AddrError](err); ok {
			err = errors.New(reason.Err)
		}
		return fmt.Errorf("%w; give HOST:PORT, or [ADDRESS]:PORT for IPv6", err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '+' {
		return fmt.Errorf("port %.20q must be 1 to 65535", port)
	}
	if host == "" || len(host) > maxHost || strings.ContainsFunc(host, isNoHost) {
		return fmt.Errorf("%.300q is no host", host)
	}
	return nil
}

// isNoHost reports whether a character can be in no name or address of a host.
func isNoHost(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letter && (r < '0' || r > '9') && !strings.ContainsRune(".-_:%", r)
}
