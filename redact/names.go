package redact

import "strings"

// secretParts are what names of secrets contain, without dashes and in lower
// case. The first letters are looked at by secretName.
var secretParts = map[byte][]string{
	'a': {"apikey", "accesskey", "authoritydata", "authorization", "accountkey"},
	'c': {"credential", "clientkey", "certificatedata", "cookie"},
	'e': {"encryptionkey"},
	'k': {"keydata"},
	'm': {"mnemonic", "masterkey"},
	'p': {"passw", "passphrase", "passcode", "privatekey", "privkey"},
	'r': {"rawtx", "rawtransaction", "recoveryphrase"},
	's': {"secret", "signature", "seedphrase", "seedwords", "signingkey", "sessionid", "sessionkey", "signedtx", "signedtransaction", "sshkey", "storagekey"},
	't': {"token", "txraw", "txbytes", "txblob", "txhex"},
}

// innocentEnds end names that are about a secret, and innocentStarts begin codes
// such as INVALID_ENROLL_TOKEN, which have text behind them.
var (
	innocentEnds = []string{
		"count", "size", "length", "len", "type", "name", "ref", "file", "path", "dir", "url", "uri", "ttl", "expiry", "expires", "expiresat", "expiresin",
		"limit", "revoked", "expired", "invalid", "missing", "required", "unknown", "notfound",
	}
	innocentStarts = []string{"invalid", "missing", "unknown", "expired", "unexpected"}
)

// secretName reports whether a value of this name is a secret.
func secretName(name string) bool {
	if len(name) < 3 {
		return false
	}
	var buf [maxName]byte
	n := normalInto(buf[:0], name)
	if !hasSecretPart(n, name) {
		return false
	}
	for _, end := range innocentEnds {
		if len(n) >= len(end) && string(n[len(n)-len(end):]) == end {
			return false
		}
	}
	for _, start := range innocentStarts {
		if len(n) >= len(start) && string(n[:len(start)]) == start {
			return false
		}
	}
	return true
}

func hasSecretPart(n []byte, name string) bool {
	for i, c := range n {
		if c > 't' || !partStarts[c] {
			continue
		}
		for _, part := range secretParts[c] {
			if len(n)-i >= len(part) && string(n[i:i+len(part)]) == part {
				return part != "token" || i+6 >= len(n) || string(n[i:i+7]) != "tokeniz"
			}
		}
	}
	switch string(n) {
	case "auth", "kubeconfig", "pwd", "seed":
		return true
	}
	switch {
	case len(n) < 5:
		return false
	case string(n[len(n)-4:]) == "seed", string(n[len(n)-3:]) == "pwd":
		return true
	case string(n[len(n)-4:]) == "pass": // DB_PASS, not bypass
		return strings.IndexByte("_-.", name[len(name)-5]) >= 0
	}
	return false
}

var partStarts = func() (starts [128]bool) {
	for c := range secretParts {
		starts[c] = true
	}
	return starts
}()

// normalInto appends name in lower case and without dashes.
func normalInto(b []byte, name string) []byte {
	for i := max(0, len(name)-maxName); i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'A' && c <= 'Z':
			b = append(b, c|0x20)
		case classes[c]&alnum != 0:
			b = append(b, c)
		}
	}
	return b
}

func normal(name string) string { return string(normalInto(nil, name)) }

func has(name, part string) bool { return strings.Contains(name, part) }
