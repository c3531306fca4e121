package emulator

// changes are what a record does to one subscription, whose instance is its first
// field.
var changes = [1 << 8]func(*subImage, *image, *recordReader){
	recLeased:       (*subImage).leased,
	recUndone:       (*subImage).undone,
	recAcked:        (*subImage).acked,
	recAckedEarly:   (*subImage).ackedEarly,
	recExtended:     (*subImage).extended,
	recReturned:     (*subImage).returned,
	recDeadLettered: (*subImage).deadLettered,
	recReset:        (*subImage).reset,
	recQueue:        (*subImage).numbers,
	recItem:         (*subImage).item,
}

func (s *subImage) leased(_ *image, r *recordReader) {
	number := r.uint()
	it := s.items[r.uint()]
	due, deliveries := r.time(), r.uint()
	if it == nil || r.err != nil {
		return
	}
	delete(s.outstanding, it.ack) // an expired lease left no record
	it.state, it.ack, it.due, it.deliveries = leased, number, due, int32(deliveries)
	s.outstanding[number] = it
	s.last = max(s.last, number)
}

// take returns the message of a delivery, which ends.
func (s *subImage) take(number uint64) *item {
	it := s.outstanding[number]
	delete(s.outstanding, number)
	return it
}

func (s *subImage) undone(_ *image, r *recordReader) {
	if it := s.take(r.uint()); it != nil {
		it.state = available
		it.deliveries--
	}
}

func (s *subImage) acked(_ *image, r *recordReader) {
	it := s.take(r.uint())
	switch {
	case it == nil:
	case s.settings.retainAcked:
		it.state = acked
	default:
		delete(s.items, it.msg.id)
	}
}

func (s *subImage) ackedEarly(_ *image, r *recordReader) {
	if it := s.outstanding[r.uint()]; it != nil {
		it.state = ackedEarly
	}
}

func (s *subImage) extended(_ *image, r *recordReader) {
	it, due := s.outstanding[r.uint()], r.time()
	if it != nil && r.err == nil {
		it.due = due
	}
}

func (s *subImage) returned(_ *image, r *recordReader) {
	it, at := s.take(r.uint()), r.time()
	if it == nil {
		return
	}
	switch wait := s.settings.retry.wait(it.deliveries); {
	case s.settings.deadLetterPolicy.exhausted(it.deliveries):
		it.state = deadLettering
	case wait > 0:
		it.state, it.due = delayed, at+wait
	default:
		it.state = available
	}
}

func (s *subImage) deadLettered(_ *image, r *recordReader) {
	delete(s.items, r.uint())
}

func (s *subImage) reset(img *image, r *recordReader) {
	since := r.time()
	unacked, done := r.ids(), r.ids()
	if r.err != nil {
		return
	}
	msgs, kept := img.find(unacked, s, s.pb.GetTopic()), img.find(done, s, s.pb.GetTopic())
	s.lastSeek = since
	clear(s.items)
	clear(s.outstanding)
	for _, m := range msgs {
		s.items[m.id] = &item{msg: m, state: available}
	}
	for _, m := range kept {
		s.items[m.id] = &item{msg: m, state: acked}
	}
}

func (s *subImage) numbers(_ *image, r *recordReader) {
	s.lastSeek, s.last = r.time(), r.uint()
}

func (s *subImage) item(img *image, r *recordReader) {
	m := img.bodies[r.uint()]
	it := &item{msg: m, state: itemState(r.uint()), ack: r.uint(), due: r.time(), deliveries: int32(r.uint())}
	if m == nil || r.err != nil {
		return
	}
	s.items[m.id] = it
	if it.state == leased || it.state == ackedEarly {
		s.outstanding[it.ack] = it
	}
}
