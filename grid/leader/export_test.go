package leader

// DiskIsFull makes the disk look full, or as it is.
func (l *Leader) DiskIsFull(full bool) {
	l.DiskFills(full)
	l.disk.check()
}

// DiskFills is DiskIsFull when the disk is measured the next time.
func (l *Leader) DiskFills(full bool) {
	free := int64(1)
	if full {
		free = 1 << 62
	}
	l.disk.mu.Lock()
	l.disk.minFree = free
	l.disk.mu.Unlock()
}

// Conns returns how many connections count.
func (l *Leader) Conns() int { return l.door.Conns() }
