package egress

import "net/netip"

// special are the addresses that are no server's on the internet, and what they are for. Package netip calls many
// of them global unicast. The registries are IANA's for special purposes, of IPv4 and IPv6 (RFC 6890).
var special = []struct {
	prefix netip.Prefix
	name   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network, RFC 791"}, // Linux connects 0.0.0.0 to itself
	{netip.MustParsePrefix("10.0.0.0/8"), "private, RFC 1918"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared by a provider's customers, RFC 6598"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback, RFC 1122"},
	{netip.MustParsePrefix("168.63.129.16/32"), "Azure's services of a machine"}, // public by its number only
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, RFC 3927"},            // and the metadata of clouds
	{netip.MustParsePrefix("172.16.0.0/12"), "private, RFC 1918"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocols, RFC 6890"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation, RFC 5737"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relays, RFC 7526"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private, RFC 1918"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarks, RFC 2544"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation, RFC 5737"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation, RFC 5737"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast, RFC 5771"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved and broadcast, RFC 1112"},

	{netip.MustParsePrefix("::1/128"), "loopback, RFC 4291"},
	{netip.MustParsePrefix("::/96"), "unspecified, or an address of IPv4, RFC 4291"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "translated to IPv4, RFC 2765"},
	{netip.MustParsePrefix("64:ff9b::/96"), "translated to IPv4, RFC 6052"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translated to IPv4, RFC 8215"},
	{netip.MustParsePrefix("100::/64"), "discarded, RFC 6666"},
	{netip.MustParsePrefix("2001::/32"), "Teredo, to IPv4, RFC 4380"},
	{netip.MustParsePrefix("2001::/23"), "protocols, RFC 2928"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation, RFC 3849"},
	{netip.MustParsePrefix("2002::/16"), "6to4, to IPv4, RFC 3056"},
	{netip.MustParsePrefix("3fff::/20"), "documentation, RFC 9637"},
	{netip.MustParsePrefix("fc00::/7"), "private, RFC 4193"},
	{netip.MustParsePrefix("fe80::/10"), "link-local, RFC 4291"},
	{netip.MustParsePrefix("fec0::/10"), "site-local, RFC 3879"},
	{netip.MustParsePrefix("ff00::/8"), "multicast, RFC 4291"},
}

// internet has all addresses of IPv6 that servers have got so far (RFC 4291, 2.4).
var internet = netip.MustParsePrefix("2000::/3")

// specialPurpose returns what an address is for that is not public, and "" for one that is. It takes addresses of IPv4
// as such, and without a zone, as no prefix contains others.
func specialPurpose(addr netip.Addr) string {
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.name
		}
	}
	if !addr.Is4() && !internet.Contains(addr) {
		return "not in use, RFC 4291"
	}
	return ""
}
