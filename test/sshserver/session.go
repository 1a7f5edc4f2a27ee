package sshserver

import (
	"context"
	"io"
	"sync"

	"golang.org/x/crypto/ssh"
)

// Command is a client's request to run a command. An empty line means a shell.
type Command struct {
	User           string
	Line           string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Exit sends the exit status to the client, although output continues until Run returns.
	Exit func(status int)
}

// session is one channel of one client.
type session struct {
	machine Machine
	user    string
	channel ssh.Channel
	hangUp  func()
}

// serve runs the only command of a session.
func (s *session) serve(ctx context.Context, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	started := false
	for request := range requests {
		var asked struct{ Line string }
		run := request.Type == "shell" || request.Type == "exec" && ssh.Unmarshal(request.Payload, &asked) == nil
		ok := run && !started && s.machine.Run != nil || request.Type == "env" || request.Type == "pty-req"
		if request.WantReply {
			_ = request.Reply(ok, nil)
		}
		if run && ok {
			started = true
			go func() {
				defer close(ended)
				s.run(ctx, asked.Line)
			}()
		}
	}
	cancel()
	if started {
		<-ended
	}
}

func (s *session) run(ctx context.Context, line string) {
	var once sync.Once
	exit := func(status int) { once.Do(func() { s.exit(status) }) }
	status := s.machine.Run(ctx, Command{s.user, line, s.channel, s.channel, s.channel.Stderr(), exit})
	switch {
	case status == HangUp:
		s.hangUp()
		return
	case ctx.Err() == nil:
		exit(status)
	}
	_ = s.channel.Close()
}

// exit sends the exit status of a command (RFC 4254, 6.10).
func (s *session) exit(status int) {
	if name, killed := signals[status]; killed {
		_, _ = s.channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name     string
			Core     bool
			Message  string
			Language string
		}{Name: name}))
		return
	}
	_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)})) //nolint:gosec // 0 to 255
}
