package redistest

// Freeze fails the test: processes cannot be stopped and resumed here.
func (s *Server) Freeze() {
	s.t.Helper()
	s.t.Fatal("a redis-server cannot be frozen on Windows")
}

// Resume ends Freeze.
func (s *Server) Resume() {}
