package client

import (
	"net"
	"slices"
	"strings"
	"testing"
)

func TestG69ParseEndpoints(t *testing.T) {
	many := strings.Fields(strings.Repeat("a:1 ", MaxLeaders+1))
	for i := range many {
		many[i] = strings.Repeat("a", i+1) + ":1"
	}
	for _, tt := range []struct {
		name    string
		args    []string
		leaders []string
		total   int
		err     string
	}{
		{"leaders and a total", []string{"127.0.0.1:5000", "127.0.0.1:5001", "12"}, []string{"127.0.0.1:5000", "127.0.0.1:5001"}, 12, ""},
		{"no total", []string{"leader-1.example:5000"}, []string{"leader-1.example:5000"}, 4, ""},
		{"IPv6", []string{"[::1]:5000", "[fe80::1%eth0]:5001", "1"}, []string{"[::1]:5000", "[fe80::1%eth0]:5001"}, 1, ""},
		{"nothing", nil, nil, 0, "0 leaders are given"},
		{"only a total", []string{"12"}, nil, 0, "0 leaders are given"},
		{"too many leaders", many, nil, 0, "65 leaders are given, must be 1 to 64"},
		{"a total of 0", []string{"a:1", "0"}, nil, 0, `total "0" must be 1 to 10000`},
		{"a negative total", []string{"a:1", "-3"}, nil, 0, `total "-3" must be`},
		{"a total that is too large", []string{"a:1", "b:1", "20001"}, nil, 0, "must be 1 to 20000, which is 10000 for each leader"},
		{"a total that is no number of this machine", []string{"a:1", "99999999999999999999"}, nil, 0, "must be 1 to"},
		{"a total before a leader", []string{"12", "a:1"}, nil, 0, `leader "12": missing port in address; give HOST:PORT`},
		{"no port", []string{"a"}, nil, 0, `leader "a": missing port in address; give HOST:PORT`},
		{"IPv6 without brackets", []string{"::1:5000"}, nil, 0, "or [ADDRESS]:PORT for IPv6"},
		{"no host", []string{":5000"}, nil, 0, `leader ":5000": "" is no host`},
		{"port 0", []string{"a:0"}, nil, 0, `port "0" must be 1 to 65535`},
		{"a port that is too large", []string{"a:65536"}, nil, 0, `port "65536" must be 1 to 65535`},
		{"a named port", []string{"a:http"}, nil, 0, `port "http" must be 1 to 65535`},
		{"a space", []string{"a b:1"}, nil, 0, `"a b" is no host`},
		{"a URL", []string{"http://a:1"}, nil, 0, "too many colons in address"},
		{"the same leader twice", []string{"a:1", "a:1"}, nil, 0, "leader a:1 is given twice"},
		{"several mistakes", []string{"a", "b:0", "0"}, nil, 0, "total \"0\" must be 1 to 20000, which is 10000 for each leader\nleader \"a\": missing port"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaders, total, err := ParseEndpoints(tt.args)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error is %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || !slices.Equal(leaders, tt.leaders) || total != tt.total {
				t.Errorf("got %q, %d, %v; want %q, %d", leaders, total, err, tt.leaders, tt.total)
			}
		})
	}
}

// FuzzEndpoints looks for arguments that are taken and cannot be used.
func FuzzEndpoints(f *testing.F) {
	f.Add("127.0.0.1:5000 [::1]:5001 12")
	f.Add("a:1 -3")
	f.Add("12 a:1")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		leaders, total, err := ParseEndpoints(args)
		if err != nil {
			if len(err.Error()) > 400*(MaxLeaders+2) {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if total < 1 || total > MaxDesired || len(leaders) == 0 || !slices.Equal(leaders, args[:len(leaders)]) || len(args)-len(leaders) > 1 {
			t.Errorf("%q is %q, %d", args, leaders, total)
		}
		for _, l := range leaders {
			if host, port, err := net.SplitHostPort(l); err != nil || net.JoinHostPort(host, port) != l && "["+host+"]:"+port != l {
				t.Errorf("leader %q is no address: %v", l, err)
			}
		}
		if _, err := New(Config{ClientID: "clientA", Leaders: leaders, Desired: total}); err != nil {
			t.Errorf("%q is taken, and not by a client: %v", args, err)
		}
	})
}
