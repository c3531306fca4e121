// Package access decides who may do what in the grid, and configures TLS.
//
// An [ACL] is a file in TOML with a table for each principal: how it is identified, by a token or by a name in its
// certificate, and what it may do. Only what the file allows is allowed. Without a file everything is allowed, for a grid on
// one's own machine.
//
//	[team-a]
//	tokens = ["sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
//	clients = ["team-a", "team-a-*"]   # ClientIds that it may submit jobs as
//	execs = ["calc.*", "gpu.>"]        # execs that these jobs may name
//	max_cap = 16                       # jobs of one client that may run at once
//
//	[gpu-workers]
//	sans = ["gpu-1.example.org", "spiffe://fleet/gpu-2"]
//	patterns = ["job.assign.gpu.>"]    # patterns that it may have as a worker, or narrower ones
//
// The package keeps no connection and starts no goroutine.
package access
