package redisdb_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/redisdb"
)

// address is an entry of testdata/redis_urls.json, which the frontend reads as well.
type address struct {
	URL, Wrong, Kind, Primary string
	Hosts                     []string
	DB                        int
	TLS                       bool
	Username, Password        string
	SentinelUsername          string `json:"sentinel_username"`
	SentinelPassword          string `json:"sentinel_password"`
}

func addresses(tb testing.TB) []address {
	tb.Helper()
	text, err := os.ReadFile("testdata/redis_urls.json")
	if err != nil {
		tb.Fatal(err)
	}
	var all []address
	if err := json.Unmarshal(text, &all); err != nil {
		tb.Fatal(err)
	}
	return all
}

func TestF28AddressesOfRedis(t *testing.T) {
	for _, a := range addresses(t) {
		o, err := redisdb.ParseURL(a.URL)
		if a.Wrong != "" {
			if err == nil || !strings.Contains(err.Error(), a.Wrong) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: error %v, want one that says %q and no secret", a.URL, err, a.Wrong)
			}
			continue
		}
		got := address{
			URL: a.URL, Hosts: o.Addrs, Primary: o.Primary, DB: o.DB, TLS: o.TLS, Username: o.Username, Password: o.Password,
			SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		}
		switch {
		case o.Cluster():
			got.Kind = "cluster"
		case o.Primary != "":
			got.Kind = "sentinel"
		default:
			got.Hosts = []string{net.JoinHostPort(o.Host, strconv.Itoa(o.Port))}
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(a) {
			t.Errorf("%q:\n got %+v, %v\nwant %+v", a.URL, got, err, a)
		}
		if o.Password != "" && strings.Contains(o.String(), o.Password) {
			t.Errorf("%q is shown as %q, with its password", a.URL, o)
		}
	}
}

// FuzzParseURL: whatever comes is read or refused, an error repeats nothing of it, and
// what was read can be connected to.
func FuzzParseURL(f *testing.F) {
	for _, a := range addresses(f) {
		f.Add(a.URL)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := redisdb.ParseURL(text)
		if err != nil {
			marked, secret := strings.Replace(text, "://", "://u:xyzzy@", 1), "xyzzy"
			if _, again := redisdb.ParseURL(marked); strings.Contains(fmt.Sprint(again), secret) {
				t.Errorf("the error of %q repeats its password: %v", marked, again)
			}
			return
		}
		hosts := o.Addrs
		if len(hosts) == 0 {
			hosts = []string{net.JoinHostPort(o.Host, strconv.Itoa(o.Port))}
		}
		for _, h := range hosts {
			host, port, err := net.SplitHostPort(h)
			if n, bad := strconv.Atoi(port); err != nil || host == "" || bad != nil || n < 1 || n > 65535 {
				t.Errorf("%q names the host %q", text, h)
			}
		}
		if o.DB < 0 || o.Cluster() && o.DB != 0 {
			t.Errorf("%q names database %d", text, o.DB)
		}
		_ = redisdb.Connect(o).Close()
	})
}
