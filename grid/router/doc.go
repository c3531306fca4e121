// Package router runs a router of the grid: its clients see one leader, behind which there are several.
//
// Each connection of a client has a [client.Multi] of its own, so it has a connection to each leader as well. Jobs and results pass as
// they are. What the leader knows of a client's connections, it knows of those of the router: whose results are to go where, and
// which of them were delivered. A result is acknowledged to its leader when the client has acknowledged it. So the router keeps
// nothing: when it ends, or a client does, results stay with the leaders, and jobs that were not acknowledged stay with the clients.
//
// The policy [client.Rendezvous] gives a job that is submitted again, perhaps by way of another router, to the leader that has it.
package router
