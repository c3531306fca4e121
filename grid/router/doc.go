// Package router runs a router of the grid: clients connect to it as to one leader, and it passes their jobs on to several.
//
// For each connection of a client the router has a [client.Multi], and so a connection to each leader. Jobs and results pass unchanged. To a
// leader these connections are the client's: it knows which results go where, and which were delivered. A result is acknowledged to its
// leader when the client has acknowledged it. So the router keeps nothing: when it or a client ends, results stay with the leaders, and
// jobs that were not acknowledged stay with the clients.
//
// The policy [client.Rendezvous] gives a job that is submitted again, perhaps by way of another router, to the leader that has it.
package router
