package jobapi

import "github.com/batchfleet/batchfleet/jobapi/redact"

// shown returns a text of ours as a caller may see it, who may have put a secret
// where we quote something.
func shown(s string) string { return redact.Text(s) }
