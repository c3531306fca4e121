//go:build unix

package redistest

import "syscall"

// Freeze stops the server from answering without closing its connections.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Resume ends Freeze.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}
