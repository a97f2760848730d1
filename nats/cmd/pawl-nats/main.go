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
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"

	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/nats/natslog"
)

// Exit statuses.
// They are those of the command pawl as far as they mean the same; 3 is not used here. Scripts depend
// on the numbers.
const (
	exitDone = iota
	exitNo
	exitUnusable
	_
	exitNoServer
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := runArguments(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// usage is what is printed where no command is named.
const usage = `Usage: pawl-nats doctor [flags]
       pawl-nats recover [flags] DIR

doctor asks NATS servers whether they keep what they acknowledge. recover begins
the log of a cluster anew from the engine directory DIR. -help says which flags.
`

// runArguments does what a command line says, and returns the exit status.
//
// It alone prints errors and chooses the status; the commands below return them. errNo has no text of
// its own to print, since the command has printed its report. package flag prints what is wrong with
// flags, and asking for -help is no failure.
func runArguments(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errs, usage)
		return exitUnusable
	}
	var err error
	switch args[0] {
	case "doctor":
		err = checkServers(ctx, args[1:], out, errs)
	case "recover":
		err = recoverLog(ctx, args[1:], out, errs)
	case "-h", "-help", "--help", "help":
		fmt.Fprint(out, usage)
		return exitDone
	default:
		fmt.Fprint(errs, usage)
		return exitUnusable
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.Is(err, errNo):
		return exitNo
	}
	if !errors.Is(err, errUsage) { // package flag has told of that
		fmt.Fprintf(errs, "pawl-nats: %v\n", err)
	}
	switch {
	case errors.Is(err, natslog.ErrUnsafeServers):
		return exitNo
	case errors.Is(err, pawl.ErrLocked), errors.Is(err, errNoServer):
		return exitNoServer
	}
	return exitUnusable
}

// They say only which status an error has; errNoServer is wrapped around the error that tells why.
var (
	errNo       = errors.New("there is something to be done")
	errUsage    = errors.New("the flags are wrong")
	errNoServer = errors.New("no server answers")
)

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
		return nil, fmt.Errorf("%w: %w", errNoServer, err)
	}
	return conn, nil
}

// parseFlags reads the arguments behind the name of a command.
//
// operands is how many arguments there must be behind the flags. Its errors are flag.ErrHelp and errUsage; the user has
// been told about either when it returns.
func parseFlags(f *flag.FlagSet, args []string, operands int) error {
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if err == nil && f.NArg() != operands {
		f.Usage()
		err = errUsage
	}
	if err != nil {
		return errUsage
	}
	return nil
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
	if err := parseFlags(f, args, 0); err != nil {
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
//
// -give-up is the consent to lose: the entries that the log has, or had, and the directory lacks.
// Without it nothing changes in the log, and the status 1 says that there would be something to do.
// The directory is looked at before the servers are, because a wrong path must not make streams or
// buckets.
func recoverLog(ctx context.Context, args []string, out, errs io.Writer) error {
	var at place
	f := flag.NewFlagSet("pawl-nats recover", flag.ContinueOnError)
	f.SetOutput(errs)
	at.addFlags(f)
	name := f.String("name", "pawl", "the `NAME` of the cluster, as in natscluster.Options")
	replicas := f.Int("replicas", 0, "on how many servers a new log is, where there is none any more")
	keyFile := f.String("key-file", "", "the keys of sealed values, a `FILE` with a line each: an id, and 32 bytes in base64")
	giveUp := f.Int("give-up", -1, "begin the log anew, and give up at most `N` entries that the directory lacks; without it, only report")
	if err := parseFlags(f, args, 1); err != nil {
		return err
	}
	o := pawl.RecoverOptions{Begin: *giveUp >= 0, GiveUp: max(*giveUp, 0)}
	if *keyFile != "" {
		keys, err := aesgcm.ReadKeyFile(*keyFile)
		if err != nil {
			return err
		}
		o.Codec = keys
	}
	if _, err := os.Stat(f.Arg(0)); err != nil {
		return err
	}
	conn, err := at.connectToServers()
	if err != nil {
		return err
	}
	defer conn.Close()
	// OpenCluster makes what is missing, and a log that is gone must be made on as many servers as it
	// was: only the operator knows how many.
	if *replicas == 0 {
		if *replicas, err = replicasOf(ctx, conn, *name, at.wait); err != nil {
			return err
		}
	}
	b, err := natscluster.Open(ctx, conn, natscluster.Options{Name: *name, Replicas: *replicas})
	if err != nil {
		return err
	}
	if o.Log, err = b.NewLog(ctx); err != nil {
		return err
	}
	o.Bases = b.Bases
	report, err := pawl.Recover(ctx, f.Arg(0), o)
	// The report is printed even beside an error, as far as there is one: it says what the directory
	// has.
	if report.Directory.Seq != 0 {
		_, wrong := fmt.Fprintln(out, strings.TrimSuffix(report.String(), "\n"))
		err = errors.Join(err, wrong)
	}
	if err == nil && !report.Begun {
		err = errNo
	}
	return err
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
		return 0, fmt.Errorf("%w: look for the stream PAWLLOG_%s: %w", errNoServer, name, err)
	}
	return stream.CachedInfo().Config.Replicas, nil
}
