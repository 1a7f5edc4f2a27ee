// Command bench measures the programs that serve node requests on a ZooKeeper, with clients that work as Zuul does:
//
//	. DIR/env.sh      # of test/zookeeper/lab.sh
//	go run ./test/zookeeper/bench -label small -clients 50 -pid "$(test/zookeeper/launcher.sh pid NODEPOOL)"
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/npctl/npctl/test/zookeeper/lab"
	"github.com/npctl/npctl/test/zookeeper/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := bench(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, arguments []string, out io.Writer) error {
	var o load.Options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	labels := flags.String("label", "small", "labels of each request, with commas")
	asJSON := flags.Bool("json", false, "print the result as JSON; durations are nanoseconds")
	name := flags.String("name", "", "name of the printed row")
	flags.IntVar(&o.Clients, "clients", 10, "how many at once")
	flags.DurationVar(&o.Warmup, "warmup", 5*time.Second, "what is answered in it does not count")
	flags.DurationVar(&o.Time, "time", 20*time.Second, "how long to measure")
	flags.DurationVar(&o.Use, "use", 0, "how long a node is kept")
	flags.DurationVar(&o.Pause, "pause", 0, "between two requests of a client, at random up to this")
	flags.IntVar(&o.PID, "pid", 0, "ID of the process to measure")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	env, err := lab.FromEnviron()
	if err != nil {
		return err
	}
	o.Labels, o.Plain = strings.Split(*labels, ","), env.Plain
	result, err := load.Run(ctx, load.Connection{Hosts: env.Hosts, CA: env.CA, Cert: env.Cert, Key: env.Key}, o)
	if err != nil {
		return err
	}
	if *asJSON {
		err = json.NewEncoder(out).Encode(result)
	} else {
		report(out, *name, o, result)
	}
	return errors.Join(err, verdict(result))
}

// report prints one row of a table in the format of docs/performance.md.
func report(out io.Writer, name string, o load.Options, r load.Result) {
	fmt.Fprintf(out, "| %s | %d | %.4g | %s / %s / %s | %s / %s | %.3g | %.3g | %.3g | %d |\n", name, o.Clients, r.Rate,
		seconds(r.Latency.P50), seconds(r.Latency.P95), seconds(r.Latency.P99), seconds(r.Gone.P50), seconds(r.Gone.P95),
		r.CPU, r.Packets, r.Own, r.Memory>>20)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func verdict(r load.Result) error {
	if r.Failed == 0 && r.Shared == 0 && len(r.Errors) == 0 {
		return nil
	}
	return fmt.Errorf("%d requests failed, %d times a node had two users, errors: %s", r.Failed, r.Shared, strings.Join(r.Errors, "; "))
}
