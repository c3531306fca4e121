//go:build !unix

package relay

const nonBlock = 0
