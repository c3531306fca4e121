package redisdb

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
)

// The ports of addresses that have none.
const (
	defaultPort         = 6379
	defaultSentinelPort = 26379
)

// ParseURL reads an address of Redis:
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]
//	redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]/PRIMARY[/DB][?sentinel_username=U&sentinel_password=P]
//	redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]
//
// and each with rediss for TLS. Credentials may be percent-encoded. Its errors do not
// quote it: it may hold a password. frontend/fleet/redis_url.py reads the same, and
// testdata/redis_urls.json is what both are tested with.
func ParseURL(text string) (Options, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	kind := strings.TrimPrefix(strings.TrimPrefix(scheme, "redis"), "s")
	o := Options{TLS: strings.HasPrefix(scheme, "rediss")}
	if !ok || !strings.HasPrefix(scheme, "redis") || kind != "" && kind != "+sentinel" && kind != "+cluster" {
		return Options{}, errors.New("it is no address of Redis: want redis://HOST:PORT/DB, redis+sentinel://HOST:PORT,HOST:PORT/PRIMARY/DB or redis+cluster://HOST:PORT,HOST:PORT")
	}
	rest, query, asked := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		var bad, bad2 error
		o.Username, bad = unescape(user)
		o.Password, bad2 = unescape(password)
		if err := cmp.Or(bad, bad2); err != nil {
			return Options{}, err
		}
		authority = authority[at+1:]
	}
	if asked {
		if err := o.parseQuery(query, kind == "+sentinel"); err != nil {
			return Options{}, err
		}
	}
	if err := o.parseHosts(authority, kind); err != nil {
		return Options{}, err
	}
	if err := o.parsePath(path, kind); err != nil {
		return Options{}, err
	}
	return o, nil
}

var (
	hostForm     = jobs.Form(`^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?$`)
	databaseForm = jobs.Form(`^(?:([0-9]{1,7})/?)?$`)
	primaryForm  = jobs.Form(`^([A-Za-z0-9._-]+)(?:/([0-9]{1,7})?)?$`) // what Sentinel allows in a name
)

func (o *Options) parseHosts(text, kind string) error {
	hosts := strings.Split(text, ",")
	if kind == "" && len(hosts) > 1 {
		return errors.New("it names several servers: say with redis+sentinel:// or redis+cluster:// what they are")
	}
	for _, one := range hosts {
		m := hostForm().FindStringSubmatch(one)
		if m == nil {
			return errors.New("a host in it is no HOST:PORT; percent-encode what is special in a password")
		}
		host, port := m[1]+m[2], defaultPort
		if kind == "+sentinel" {
			port = defaultSentinelPort
		}
		if m[3] != "" {
			port, _ = strconv.Atoi(m[3]) // at most five digits
		}
		if port < 1 || port > 65535 {
			return errors.New("a port in it is not from 1 to 65535")
		}
		if kind == "" {
			o.Host, o.Port = host, port
		} else {
			o.Addrs = append(o.Addrs, net.JoinHostPort(host, strconv.Itoa(port)))
		}
	}
	return nil
}

func (o *Options) parsePath(path, kind string) error {
	database := ""
	switch kind {
	case "+cluster":
		if path != "" {
			return errors.New("a cluster has one database: end the address after the last port")
		}
	case "+sentinel":
		m := primaryForm().FindStringSubmatch(path)
		if m == nil {
			return errors.New("the name of the primary is missing, or what follows it is no number of a database: want redis+sentinel://HOST:PORT,HOST:PORT/PRIMARY/DB")
		}
		o.Primary, database = m[1], m[2]
	default:
		m := databaseForm().FindStringSubmatch(path)
		if m == nil {
			return errors.New("the database is no number: want redis://HOST:PORT/DB")
		}
		database = m[1]
	}
	o.DB, _ = strconv.Atoi(cmp.Or(database, "0")) // at most seven digits
	if o.DB > maxDB {
		return errors.New("the database is not from 0 to 1048576")
	}
	return nil
}

// maxDB is the highest number of a database.
const maxDB = 1 << 20

func (o *Options) parseQuery(query string, sentinel bool) error {
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		value, err := unescape(value)
		switch {
		case err != nil:
			return err
		case sentinel && name == "sentinel_username":
			o.SentinelUsername = value
		case sentinel && name == "sentinel_password":
			o.SentinelPassword = value
		default:
			return errors.New("it has a parameter that is not known: only redis+sentinel:// has some, sentinel_username and sentinel_password")
		}
	}
	return nil
}

func unescape(text string) (string, error) {
	plain, err := url.PathUnescape(text)
	if err != nil || !utf8.ValidString(plain) {
		return "", errors.New("a % in it does not begin two hexadecimal digits, or they are no UTF-8: write %25 for a percent sign")
	}
	return plain, nil
}
