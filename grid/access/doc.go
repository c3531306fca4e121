// Package access decides who may do what in the grid, and sets up TLS.
//
// An [ACL] is a file in TOML with a table for each principal: how it shows who it is, by a token or by the name in its
// certificate, and what it may do. What the file does not allow is refused. Without a file everything is allowed, as it
// is on a machine of one's own.
//
//	[team-a]
//	tokens = ["sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
//	clients = ["team-a", "team-a-*"]   # as which clients it may submit jobs
//	execs = ["calc.*", "gpu.>"]        # which programs they may run
//	max_cap = 16                       # of jobs of one client that run at once
//
//	[gpu-workers]
//	sans = ["gpu-1.example.org", "spiffe://fleet/gpu-2"]
//	patterns = ["job.assign.gpu.>"]    # which patterns it may declare as a worker, or narrower ones
//
//	[oncall]
//	tokens = ["sha256:…"]
//	admin = true
//
// The package keeps no connection and starts no goroutine.
package access
