package provider

// ParsePlace reads the place of a line of a zpe job's log and writes it; "" is none.
func ParsePlace(s string) string {
	p := parsePlace(s)
	if p.ms < 0 {
		return ""
	}
	return p.String()
}
