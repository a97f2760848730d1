// Command pawl-nats is for the operators of engines whose log, bases and workers are at NATS servers.
//
//	pawl-nats doctor -s nats://HOST:4222 -creds system.creds
//	pawl-nats recover -s nats://HOST:4222 -creds pawl.creds -name orders data
//
// doctor asks the servers whether they keep what they acknowledge; it takes a connection of the system account. recover
// begins the log of a cluster anew from an engine directory that is whole, when the log has a hole, is damaged or is gone:
// without -give-up it only reports. docs/scale.md says what to do when.
//
// The exit status is 0 if it is done, or nothing is to be done; 1 if doctor found something, or recover would have something to do; 2
// for whatever else goes wrong; 4 if no server answers, or an engine has the directory open.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/logtool"
	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/nats/natslog"
)

func main() { program.Main() }

// program is what this program does.
var program = logtool.Program{
	Name: "pawl-nats", Usage: usage,
	Commands: map[string]func(context.Context, []string, io.Writer, io.Writer) error{"doctor": checkServers, "recover": recoverLog},
	Found:    []error{natslog.ErrUnsafeServers},
}

// usage is what is printed where no command is named.
const usage = `Usage: pawl-nats doctor [flags]
       pawl-nats recover [flags] DIR

doctor asks NATS servers whether they keep what they acknowledge. recover begins
the log of a cluster anew from the engine directory DIR. -help says which flags.
`

// A place is where the servers are, and who asks.
type place struct {
	servers, credentials string
	wait                 time.Duration
}

// addFlags adds the flags that both commands have.
func (p *place) addFlags(f *flag.FlagSet) {
	f.StringVar(&p.servers, "s", nats.DefaultURL, "the servers, `URL`s with commas between them")
	f.StringVar(&p.credentials, "creds", "", "a `FILE` with the credentials of an account")
	f.DurationVar(&p.wait, "wait", 10*time.Second, "how long to wait for the servers")
}

// connectToServers connects to one of the servers.
//
// The connection comes back by itself, for as long as the command runs: a recovery may last longer
// than a server's restart. The caller closes it.
func (p *place) connectToServers() (*nats.Conn, error) {
	options := []nats.Option{nats.Name("pawl-nats"), nats.Timeout(p.wait), nats.MaxReconnects(-1)}
	if p.credentials != "" {
		options = append(options, nats.UserCredentials(p.credentials))
	}
	conn, err := nats.Connect(p.servers, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", logtool.ErrNoServer, err)
	}
	return conn, nil
}

// checkServers is the command doctor.
//
// Its connection must be one of the system account, which sees all servers; another account gets no
// answer.
func checkServers(ctx context.Context, args []string, out, errs io.Writer) error {
	var at place
	f := flag.NewFlagSet("pawl-nats doctor", flag.ContinueOnError)
	f.SetOutput(errs)
	at.addFlags(f)
	if err := logtool.ParseFlags(f, args, 0); err != nil {
		return err
	}
	conn, err := at.connectToServers()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := natslog.CheckServers(ctx, conn); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "all servers keep what they acknowledge")
	return err
}

// recoverLog is the command recover.
func recoverLog(ctx context.Context, args []string, out, errs io.Writer) error {
	var at place
	var r logtool.Recovery
	f := flag.NewFlagSet("pawl-nats recover", flag.ContinueOnError)
	f.SetOutput(errs)
	at.addFlags(f)
	r.AddFlags(f, "the `NAME` of the cluster, as in natscluster.Options")
	replicas := f.Int("replicas", 0, "on how many servers a new log is, where there is none any more")
	if err := logtool.ParseFlags(f, args, 1); err != nil {
		return err
	}
	return r.RecoverLog(ctx, f.Arg(0), out, func() (b cluster.Backend, closeBackend func(), err error) {
		conn, err := at.connectToServers()
		if err != nil {
			return b, nil, err
		}
		if b, err = openCluster(ctx, conn, r.Name, *replicas, at.wait); err != nil {
			conn.Close()
		}
		return b, conn.Close, err
	})
}

// openCluster opens what the nodes of a cluster share.
//
// It makes what is missing, and a log that is gone must be made on as many servers as it was: only the operator knows how many.
func openCluster(ctx context.Context, conn *nats.Conn, name string, replicas int, wait time.Duration) (b cluster.Backend, err error) {
	if replicas == 0 {
		if replicas, err = replicasOf(ctx, conn, name, wait); err != nil {
			return b, err
		}
	}
	return natscluster.Open(ctx, conn, natscluster.Options{Name: name, Replicas: replicas})
}

// replicasOf returns on how many servers the log of a cluster is. A log that is gone is not made by the way, on any number of
// them.
//
// wait bounds the look at the stream. The name of the stream is that of natslog.Log.
func replicasOf(ctx context.Context, conn *nats.Conn, name string, wait time.Duration) (int, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	stream, err := js.Stream(ctx, "PAWLLOG_"+name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, fmt.Errorf("there is no stream PAWLLOG_%s: -name names another cluster, or, if the stream is gone, -replicas says on how many servers a new one is", name)
	case err != nil:
		return 0, fmt.Errorf("%w: look for the stream PAWLLOG_%s: %w", logtool.ErrNoServer, name, err)
	}
	return stream.CachedInfo().Config.Replicas, nil
}
