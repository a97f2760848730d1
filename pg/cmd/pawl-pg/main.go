// Command pawl-pg is for the operators of engines whose log is in PostgreSQL.
//
//	pawl-pg doctor -db postgres://HOST/NAME
//	pawl-pg migrate -db postgres://HOST/NAME
//	pawl-pg migrate -print -schema jobs
//	pawl-pg recover -db postgres://HOST/NAME -name orders data
//
// doctor tells how the server keeps what it acknowledges. migrate makes the tables, or prints the SQL that does. recover begins the log of
// a cluster anew from an engine directory that is whole, when the log has a hole, is damaged or is gone: without -give-up it only
// reports. docs/scale.md says what to do when.
//
// The exit status is 0 if it is done, or nothing is to be done; 1 if doctor found that the server may lose something, or recover would have
// something to do; 2 for whatever else goes wrong; 4 if an engine has the directory open.
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

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"

	"github.com/pawl-run/pawl/pg"
)

// Exit statuses. They are those of the command pawl as far as they mean the same; 3 is not used here.
const (
	exitDone = iota
	exitNo
	exitUnusable
	_
	exitLocked
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := runArguments(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// usage is what is printed where no command is named.
const usage = `Usage: pawl-pg doctor [flags]
       pawl-pg migrate [flags]
       pawl-pg recover [flags] DIR

doctor tells how a PostgreSQL server keeps what it acknowledges. migrate makes the
tables of pawl. recover begins the log of a cluster anew from the engine directory
DIR. -help says which flags.
`

// They say only which status an error has.
var (
	errNo    = errors.New("there is something to be done")
	errUsage = errors.New("the flags are wrong")
)

// runArguments does what a command line says, and returns the exit status.
func runArguments(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errs, usage)
		return exitUnusable
	}
	var err error
	switch args[0] {
	case "doctor":
		err = checkServer(ctx, args[1:], out, errs)
	case "migrate":
		err = makeTables(ctx, args[1:], out, errs)
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
	case !errors.Is(err, errUsage): // package flag has told of that
		fmt.Fprintf(errs, "pawl-pg: %v\n", err)
	}
	if errors.Is(err, pawl.ErrLocked) {
		return exitLocked
	}
	return exitUnusable
}

// A place is where the tables are.
type place struct {
	url     string
	options pg.Options
}

// parse reads the flags of a command, those that all have among them, and requires that many arguments behind them.
func (p *place) parse(f *flag.FlagSet, args []string, errs io.Writer, operands int) error {
	f.SetOutput(errs)
	f.StringVar(&p.url, "db", "", "the `address` of the database; by default that of the variables PGHOST, PGDATABASE and so on")
	f.StringVar(&p.options.Schema, "schema", "", `the schema of the tables; "pawl" by default`)
	f.StringVar(&p.options.Prefix, "prefix", "", "what the names of the tables begin with")
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

// checkServer is the command doctor.
func checkServer(ctx context.Context, args []string, out, errs io.Writer) error {
	var at place
	if err := at.parse(flag.NewFlagSet("pawl-pg doctor", flag.ContinueOnError), args, errs, 0); err != nil {
		return err
	}
	at.options.Unsafe = true // it is told below
	db, err := pg.Open(ctx, at.url, at.options)
	if err != nil {
		return err
	}
	defer db.Close()
	r, err := db.Check(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "PostgreSQL %s, synchronous_standby_names %q, tables of version %d\n", r.Version, r.SynchronousNames, r.Tables)
	for _, text := range r.Unsafe {
		fmt.Fprintln(out, "unsafe:", text)
	}
	for _, text := range r.Notes {
		fmt.Fprintln(out, "note:", text)
	}
	if len(r.Unsafe) > 0 {
		return errNo
	}
	_, err = fmt.Fprintln(out, "the server keeps what it acknowledges, as long as its disk does")
	return err
}

// makeTables is the command migrate.
func makeTables(ctx context.Context, args []string, out, errs io.Writer) error {
	var at place
	f := flag.NewFlagSet("pawl-pg migrate", flag.ContinueOnError)
	prints := f.Bool("print", false, "print the SQL that makes all tables, and connect to nothing")
	if err := at.parse(f, args, errs, 0); err != nil {
		return err
	}
	if *prints {
		sql, err := pg.MigrationSQL(at.options)
		if err == nil {
			_, err = fmt.Fprint(out, sql)
		}
		return err
	}
	db, err := pg.Open(ctx, at.url, at.options)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Migrate(ctx)
}

// recoverLog is the command recover. -give-up is the consent to lose the entries that the log has, or had, and the directory lacks.
func recoverLog(ctx context.Context, args []string, out, errs io.Writer) error {
	var at place
	f := flag.NewFlagSet("pawl-pg recover", flag.ContinueOnError)
	name := f.String("name", "pawl", "the `NAME` of the cluster, as OpenBackend has it")
	keyFile := f.String("key-file", "", "the keys of sealed values, a `FILE` with a line each: an id, and 32 bytes in base64")
	giveUp := f.Int("give-up", -1, "begin the log anew, and give up at most `N` entries that the directory lacks; without it, only report")
	if err := at.parse(f, args, errs, 1); err != nil {
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
	if _, err := os.Stat(f.Arg(0)); err != nil { // a wrong path makes no log
		return err
	}
	db, err := pg.Open(ctx, at.url, at.options)
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := db.OpenBackend(ctx, *name)
	if err != nil {
		return err
	}
	if o.Log, err = b.NewLog(ctx); err != nil {
		return err
	}
	o.Bases = b.Bases
	report, err := pawl.Recover(ctx, f.Arg(0), o)
	if report.Directory.Seq != 0 { // it says what the directory has, also beside an error
		_, wrong := fmt.Fprintln(out, strings.TrimSuffix(report.String(), "\n"))
		err = errors.Join(err, wrong)
	}
	if err == nil && !report.Begun {
		err = errNo
	}
	return err
}
