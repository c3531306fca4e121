package jobapi

// What the tests look at from outside.
var (
	ParseEventID = parseEventID
	Matches      = matches
	Parameters   = parameters
)

// NewWindow returns how the window of a log takes in a round of n lines of size
// bytes each, and returns how many it remembers then.
func NewWindow() (add func(n, size int) (held int)) {
	w := &window{}
	return func(n, size int) int {
		lines := make([]logLine, n)
		for i := range lines {
			lines[i].data = make([]byte, size)
		}
		w.add(lines)
		return len(w.lines)
	}
}

// Listen makes n listeners of a job of a server's first scope, which never read, and
// returns the first error.
func Listen(s *Server, id string, n int) error {
	s.once.Do(s.init)
	for range n {
		if _, err := s.hubs[0].listen(id, false); err != nil {
			return err
		}
	}
	return nil
}
