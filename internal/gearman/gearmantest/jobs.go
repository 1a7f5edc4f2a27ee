package gearmantest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/gearman"
)

// take handles a packet. The caller holds the server's mu.
func (p *peer) take(packet gearman.Packet) {
	s, args := p.server, packet.Args
	s.note(p, packet)
	switch packet.Type {
	case gearman.SetClientID:
		p.name = args[0]
	case gearman.CanDo:
		p.functions[args[0]], s.names[args[0]] = true, true
	case gearman.CantDo:
		if !s.ignoreWithdrawals {
			p.cantDo(args[0])
		}
	case gearman.OptionReq:
		if s.kind == Gearmand { // the Python server does not answer
			p.options = true
			p.send(gearman.OptionRes, args[0])
		}
	case gearman.EchoReq:
		if s.kind == Gearmand {
			p.send(gearman.EchoRes, args[0])
		}
	case gearman.SubmitJob:
		p.submit(args[0], args[1], args[2])
	case gearman.GrabJobUniq:
		p.grab()
	case gearman.PreSleep:
		p.sleeping = true
		if s.next(p) != nil {
			p.wake()
		}
	case gearman.GetStatus:
		p.status(args[0])
	case gearman.GetStatusUnique:
		p.statusUnique(args[0])
	case gearman.WorkStatus, gearman.WorkData, gearman.WorkWarning, gearman.WorkComplete, gearman.WorkFail, gearman.WorkException:
		p.work(packet)
	}
}

// cantDo withdraws a function. gearmand also withdraws its active jobs.
func (p *peer) cantDo(function string) {
	delete(p.functions, function)
	if p.server.kind == Python {
		return
	}
	for _, j := range p.server.jobs {
		if j.worker == p && j.function == function {
			p.server.requeue(j)
		}
	}
}

func (s *Server) requeue(j *job) {
	j.worker, j.numerator, j.denominator = nil, "", ""
	s.queue = append([]*job{j}, s.queue...)
	s.wakeFor(j.function)
}

func (s *Server) wakeFor(function string) {
	for p := range s.peers {
		if p.sleeping && p.functions[function] {
			p.wake()
		}
	}
}

func (p *peer) wake() {
	p.sleeping = false
	p.send(gearman.Noop)
}

func (p *peer) submit(function, unique, data string) {
	s := p.server
	if len(unique) > 64 && s.kind == Gearmand {
		p.send(gearman.Error, "ARGUMENT_TOO_LARGE", "unique is too long")
		return
	}
	s.names[function] = true
	if j := s.same(function, unique); j != nil {
		j.clients = append(j.clients, p)
		p.send(gearman.JobCreated, j.handle)
		return
	}
	s.last++
	j := &job{handle: fmt.Sprintf("H:test:%d", s.last), function: function, unique: unique, data: data, clients: []*peer{p}}
	s.jobs[j.handle] = j
	s.queue = append(s.queue, j)
	p.send(gearman.JobCreated, j.handle)
	s.wakeFor(function)
}

// same returns a job to join; the Python server joins none.
func (s *Server) same(function, unique string) *job {
	for _, j := range s.jobs {
		if s.kind == Gearmand && unique != "" && j.function == function && j.unique == unique {
			return j
		}
	}
	return nil
}

// next returns the next job for a worker.
func (s *Server) next(p *peer) *job {
	for _, j := range s.queue {
		if p.functions[j.function] {
			return j
		}
	}
	return nil
}

func (p *peer) grab() {
	s := p.server
	for {
		j := s.next(p)
		if j == nil {
			p.send(gearman.NoJob)
			return
		}
		s.queue = slices.DeleteFunc(s.queue, func(other *job) bool { return other == j })
		if j.abandoned { // dropped now, even if a client has joined it since
			delete(s.jobs, j.handle)
			continue
		}
		j.worker, p.sleeping = p, false
		p.send(gearman.JobAssignUniq, j.handle, j.function, j.unique, j.data)
		return
	}
}

// work forwards a worker's packets about its job.
func (p *peer) work(packet gearman.Packet) {
	s := p.server
	j := s.jobs[packet.Args[0]]
	if j == nil || j.worker != p && s.kind == Gearmand {
		if s.kind == Gearmand {
			p.send(gearman.Error, "JOB_NOT_FOUND", "Job given in work result not found")
		}
		return
	}
	if packet.Type == gearman.WorkStatus {
		j.numerator, j.denominator = packet.Args[1], packet.Args[2]
	}
	for _, client := range j.clients {
		client.hear(packet)
	}
	switch packet.Type {
	case gearman.WorkComplete, gearman.WorkFail, gearman.WorkException:
		delete(s.jobs, j.handle)
	}
}

// hear sends a worker's packet to a client. Without the option, gearmand converts an exception to a failure, with an
// extra NUL.
func (p *peer) hear(packet gearman.Packet) {
	if packet.Type == gearman.WorkException && p.server.kind == Gearmand && !p.options {
		p.send(gearman.WorkFail, packet.Args[0], "")
		return
	}
	p.send(packet.Type, packet.Args...)
}

func (p *peer) status(handle string) {
	j := p.server.jobs[handle]
	known, running, numerator, denominator := p.server.state(j)
	p.send(gearman.StatusRes, handle, known, running, numerator, denominator)
}

func (p *peer) statusUnique(unique string) {
	if p.server.kind == Python {
		return
	}
	var found *job
	for _, j := range p.server.jobs {
		if j.unique == unique {
			found = j
		}
	}
	known, running, numerator, denominator := p.server.state(found)
	clients := 0
	if found != nil {
		clients = len(found.clients)
	}
	p.send(gearman.StatusResUnique, unique, known, running, numerator, denominator, fmt.Sprint(clients))
}

// state returns the fields of STATUS_RES. The Python server has no numbers before the first WORK_STATUS.
func (s *Server) state(j *job) (known, running, numerator, denominator string) {
	known, running = "0", "0"
	if s.kind == Gearmand {
		numerator, denominator = "0", "0"
	}
	if j == nil {
		return known, running, numerator, denominator
	}
	if j.worker != nil {
		running = "1"
	}
	if j.numerator != "" {
		numerator, denominator = j.numerator, j.denominator
	}
	return "1", running, numerator, denominator
}

// gone cleans up after a connection.
func (p *peer) gone() {
	_ = p.net.Close()
	s := p.server
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
	for _, j := range s.jobs {
		if j.worker == p {
			s.orphan(j)
		}
		if slices.Contains(j.clients, p) {
			s.abandon(j, p)
		}
	}
}

// orphan handles a job after the loss of its worker: gearmand requeues it, the Python server fails it, with a packet
// that has the wrong magic.
func (s *Server) orphan(j *job) {
	if s.kind == Gearmand {
		s.requeue(j)
		return
	}
	for _, client := range j.clients {
		client.write(gearman.Request(gearman.WorkFail, j.handle).Append(nil))
	}
	delete(s.jobs, j.handle)
}

// abandon handles a job after the loss of its client: the Python server drops it at once, gearmand when a worker
// would get it.
func (s *Server) abandon(j *job, p *peer) {
	j.clients = slices.DeleteFunc(j.clients, func(client *peer) bool { return client == p })
	if s.kind == Python {
		delete(s.jobs, j.handle)
		s.queue = slices.DeleteFunc(s.queue, func(other *job) bool { return other == j })
	}
	j.abandoned = len(j.clients) == 0
}

// admin answers a text command.
func (p *peer) admin(line string) {
	s := p.server
	s.mu.Lock()
	defer s.mu.Unlock()
	command := strings.TrimSpace(line)
	handle, cancel := strings.CutPrefix(command, "cancel job ")
	switch {
	case command == "status":
		p.write([]byte(s.statusText()))
	case command == "workers":
		p.write([]byte(s.workersText()))
	case cancel:
		delete(s.jobs, handle)
		s.queue = slices.DeleteFunc(s.queue, func(j *job) bool { return j.handle == handle })
		p.write([]byte("OK\r\n"))
	case s.kind == Gearmand:
		p.write([]byte("ERR UNKNOWN_COMMAND Unknown+server+command\r\n"))
	}
}

func (s *Server) statusText() string {
	var text strings.Builder
	for name := range s.names {
		jobs, running, workers := 0, 0, 0
		for _, j := range s.jobs {
			if j.function == name {
				jobs++
				if j.worker != nil {
					running++
				}
			}
		}
		for p := range s.peers {
			if p.functions[name] {
				workers++
			}
		}
		fmt.Fprintf(&text, "%s\t%d\t%d\t%d\n", name, jobs, running, workers)
	}
	return text.String() + ".\n"
}

func (s *Server) workersText() string {
	var text strings.Builder
	for p := range s.peers {
		name := p.name
		if name == "" {
			name = "-"
		}
		functions := ""
		for function := range p.functions {
			functions += " " + function
		}
		fmt.Fprintf(&text, "30 127.0.0.1 %s :%s\n", name, functions)
	}
	return text.String() + ".\n"
}
