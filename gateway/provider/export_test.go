package provider

// ParsePosition reads the position of a line of a zpe job's log and writes it; "" is none.
func ParsePosition(s string) string {
	p := parsePosition(s)
	if p.ms < 0 {
		return ""
	}
	return p.String()
}
