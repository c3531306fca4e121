//go:build !linux

package processor

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
