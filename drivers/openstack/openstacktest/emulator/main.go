package emulator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/test/sshserver"
)

// Main is the program test/emulator: it serves a cloud until SIGINT or SIGTERM.
func Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serveArgs(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "emulator:", err)
		os.Exit(1)
	}
}

// program holds the flags of Main.
type program struct {
	Options
	listen, clouds string
	sshPort        int
}

func parse(args []string, stderr io.Writer) (p program, err error) {
	flags := flag.NewFlagSet("emulator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&p.listen, "listen", "127.0.0.1:0", "loopback `ADDRESS` and port; port 0 selects a free port")
	flags.StringVar(&p.File, "file", "", "keep the cloud in `FILE`; without it the cloud is lost at the end")
	flags.StringVar(&p.clouds, "write-clouds", "", "write the clouds.yaml to `FILE` instead of stdout")
	flags.StringVar(&p.FaultFile, "faults", "", "inject the faults of the JSON `FILE`, which may change while the program runs")
	flags.Func("image", "offer a public image with this `NAME`; may be given several times", func(name string) error {
		p.Images = append(p.Images, PublicImage{Name: name})
		return nil
	})
	flags.DurationVar(&p.BuildTime, "build-time", 0, "time from the creation of a server to ACTIVE")
	flags.DurationVar(&p.DeleteTime, "delete-time", 0, "time from the deletion of a server to its disappearance")
	flags.IntVar(&p.sshPort, "ssh-port", 0, "`PORT` on which active servers respond to SSH; 0 means none")
	err = flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	p.Log = slog.New(slog.NewTextHandler(stderr, nil))
	return p, err
}

func serveArgs(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	p, err := parse(args, stderr)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.listen)
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // closed by the server already
	cloud, err := Open(p.Options)
	if err != nil {
		return err
	}
	return errors.Join(p.serve(ctx, cloud, listener, stdout), cloud.Close())
}

// serve serves the APIs and, with -ssh-port, SSH. It writes the clouds.yaml when both listen.
func (p program) serve(ctx context.Context, cloud *Cloud, listener net.Listener, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	servers := []func() error{func() error { return Serve(ctx, listener, cloud) }}
	if p.sshPort != 0 {
		machines, err := sshserver.Listen(ctx, p.sshPort)
		if err != nil {
			return err
		}
		servers = append(servers, func() error { return ServeSSH(ctx, machines, cloud) })
	}
	ended := make(chan error, len(servers))
	for _, serve := range servers {
		go func() { ended <- serve() }()
	}
	err := p.announce(AuthURL(listener.Addr()), stdout)
	if err != nil {
		cancel()
	}
	for range servers {
		err = errors.Join(err, <-ended)
		cancel()
	}
	return err
}

// announce writes the clouds.yaml.
func (p program) announce(url string, stdout io.Writer) error {
	text := CloudsYAML(map[string]string{Entry: url})
	if p.clouds != "" {
		return host.ReplaceFile(p.clouds, []byte(text), 0o600)
	}
	_, err := io.WriteString(stdout, text)
	return err
}
