package gearman

import "strconv"

// sync sends the server the changes of the functions, followed by a ping if callers wait for the confirmation.
func (s *session) sync() error {
	offered, waiting := s.worker.offered(s)
	packets := s.changes(offered)
	if len(waiting) > 0 {
		s.pings++
		mark := strconv.Itoa(s.pings)
		s.asked[mark] = waiting
		packets = append(packets, ping(mark))
	}
	if len(packets) == 0 {
		return nil
	}
	return s.conn.send(packets...)
}

// changes updates the server's list of functions to that of the worker.
func (s *session) changes(offered map[string]Handler) []Packet {
	var packets []Packet
	for function := range s.registered {
		if _, ok := offered[function]; !ok && s.mayDrop(function) {
			packets = append(packets, Request(CantDo, function))
			delete(s.registered, function)
		}
	}
	for function := range offered {
		if !s.registered[function] {
			packets = append(packets, Request(CanDo, function))
			s.registered[function] = true
			if s.phase == sleeping { // jobs may be waiting for which the server sends no NOOP
				s.phase = idle
			}
		}
	}
	return packets
}

// mayDrop reports whether the server cannot have assigned a job of the function that is still unanswered.
func (s *session) mayDrop(function string) bool {
	return s.phase != requesting && (s.task == nil || s.task.Function != function)
}

// readyMark is the mark of the ping after the first functions.
const readyMark = "ready"

func (s *session) confirmed(mark string) {
	if mark == readyMark {
		s.worker.setReady()
	}
	for _, done := range s.asked[mark] {
		close(done)
	}
	delete(s.asked, mark)
}

// leave withdraws all functions and disconnects. No job may be active.
func (s *session) leave() error {
	var packets []Packet
	for function := range s.registered {
		packets = append(packets, Request(CantDo, function))
	}
	_ = s.conn.send(packets...) // the session ends in either case
	return errDrained
}
