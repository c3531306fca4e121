package leader

// DiskIsFull makes the disk look full, or as it is.
func (l *Leader) DiskIsFull(full bool) {
	free := int64(1)
	if full {
		free = 1 << 62
	}
	l.disk.mu.Lock()
	l.disk.minFree = free
	l.disk.mu.Unlock()
	l.disk.check()
}

// Conns returns how many connections count.
func (l *Leader) Conns() int { return l.door.Conns() }
