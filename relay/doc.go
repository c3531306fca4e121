// Package relay is how an orchestrator has programs run on one machine: it creates tasks over REST, and is sent
// what they have made. SPEC.md has the contract.
//
//	orchestrator ──POST /v1/tasks──▶ Server ─▶ Tasks ◀─▶ relay_runtime/tasks/ID/task.json
//	                                             │
//	             Queue: by priority and age ◀────┤  a worker's loop leases from it, runs the task's kind,
//	             Status: claims and outcomes ◀───┘  and records the outcome
//	orchestrator ◀──relay-upload── uploads ◀── a task that is uploading
//	orchestrator ◀──events──────── callbacks ◀─ events that are pending in task.json
//
// A task is one file, task.json: its state, and the events that are still to be delivered. Each change of
// it is one write, so a state and its event are on disk together or not at all. What is on its way to the
// orchestrator is delivered by package outbox, with task.json as the entry on disk.
//
// The package runs no program and does not listen: the command wires it to a worker and a server.
package relay
