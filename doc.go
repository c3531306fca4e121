// Package batchfleet is the root of the module and holds no code; the binary
// is in cli, and its main in cmd/batchfleet. See docs/architecture.md for what lives where.
package batchfleet
