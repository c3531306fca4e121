package emulator

import "context"

type stableLog struct{}

func (l *stableLog) append(w recordWriter)                    {}
func (r recorder) err() error                                 { return nil }
func (b *broker) commit(ctx context.Context) error            { return nil }
func (b *broker) written(ctx context.Context) error           { return nil }
func (b *broker) settled(ctx context.Context, q *queue) error { return nil }
