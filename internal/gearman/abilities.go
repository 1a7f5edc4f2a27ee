package gearman

import "strconv"

// sync tells the server what has changed, followed by a ping when somebody wants to know that it was heard.
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

// changes makes the server's list of functions that of the worker.
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
			if s.phase == asleep { // there may be jobs waiting that nobody wakes it for
				s.phase = hungry
			}
		}
	}
	return packets
}

// mayDrop reports whether the server cannot have given out a job of the function that is not answered yet.
func (s *session) mayDrop(function string) bool {
	return s.phase != grabbing && (s.task == nil || s.task.Function != function)
}

// readyMark is of the ping after the first functions.
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

// leave takes all functions back and hangs up. Before that, there is nothing in hand.
func (s *session) leave() error {
	var packets []Packet
	for function := range s.registered {
		packets = append(packets, Request(CantDo, function))
	}
	_ = s.conn.send(packets...) // it is over in either case
	return errLeft
}
