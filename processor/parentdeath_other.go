//go:build !linux

package processor

import "syscall"

func killWithParent() *syscall.SysProcAttr { return nil }
