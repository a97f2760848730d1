// Command pawl-pg is for the operators of engines whose log is in PostgreSQL.
//
//	pawl-pg doctor -db postgres://HOST/NAME
//	pawl-pg migrate -db postgres://HOST/NAME
//	pawl-pg migrate -print -schema jobs
//	pawl-pg recover -db postgres://HOST/NAME -name orders data
//
// doctor tells how the server keeps what it acknowledges. migrate makes the tables, or prints the SQL that does. recover begins the log of
// a cluster anew from an engine directory that is whole, when the log has a hole, is damaged or is gone: without -give-up it only
// reports, and without -new it makes no log of a name that has none. docs/scale.md says what to do when.
//
// The exit status is 0 if it is done, or nothing is to be done; 1 if doctor found that the server may lose something, or recover would have
// something to do; 2 for whatever else goes wrong; 4 if an engine has the directory open.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/logtool"
	"github.com/pawl-run/pawl/pg"
)

func main() { program.Main() }

// program is what this program does.
var program = logtool.Program{
	Name: "pawl-pg", Usage: usage,
	Commands: map[string]func(context.Context, []string, io.Writer, io.Writer) error{"doctor": checkServer, "migrate": makeTables, "recover": recoverLog},
}

// usage is what is printed where no command is named.
const usage = `Usage: pawl-pg doctor [flags]
       pawl-pg migrate [flags]
       pawl-pg recover [flags] DIR

doctor tells how a PostgreSQL server keeps what it acknowledges. migrate makes the
tables of pawl. recover begins the log of a cluster anew from the engine directory
DIR. -help says which flags.
`

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
	return logtool.ParseFlags(f, args, operands)
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
		return logtool.ErrNo
	}
	_, err = fmt.Fprintln(out, "the server keeps what it acknowledges, as long as its disk does")
	return err
}

// makeTables is the command migrate.
func makeTables(ctx context.Context, args []string, out, errs io.Writer) error {
	var at place
	f := flag.NewFlagSet("pawl-pg migrate", flag.ContinueOnError)
	prints := f.Bool("print", false, "print the SQL that makes all tables, for psql, and connect to nothing")
	if err := at.parse(f, args, errs, 0); err != nil {
		return err
	}
	if *prints {
		sql, err := pg.MigrationSQL(at.options)
		if err == nil {
			_, err = fmt.Fprintf(out, "\\set ON_ERROR_STOP on\nBEGIN;\n%s\nCOMMIT;\n", sql)
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

// recoverLog is the command recover.
func recoverLog(ctx context.Context, args []string, out, errs io.Writer) error {
	var at place
	var r logtool.Recovery
	f := flag.NewFlagSet("pawl-pg recover", flag.ContinueOnError)
	r.AddFlags(f, "the `NAME` of the cluster, as OpenBackend has it")
	anew := f.Bool("new", false, "make the log of this name, where there is none any more")
	if err := at.parse(f, args, errs, 1); err != nil {
		return err
	}
	return r.RecoverLog(ctx, f.Arg(0), out, func() (b cluster.Backend, closeBackend func(), err error) {
		db, err := pg.Open(ctx, at.url, at.options)
		if err != nil {
			return b, nil, err
		}
		if !*anew {
			err = checkLog(ctx, db, r.Name)
		}
		if err == nil {
			b, err = db.OpenBackend(ctx, r.Name)
		}
		if err != nil {
			db.Close()
		}
		return b, db.Close, err
	})
}

// checkLog fails unless the database has the log of a cluster: OpenBackend would make one for a name that is mistyped.
func checkLog(ctx context.Context, db *pg.Database, name string) error {
	there, err := db.ListLogs(ctx)
	if err != nil || slices.Contains(there, name) {
		return err
	}
	return fmt.Errorf("there is no log %q among %q: -name names another cluster, or, if the log is gone, -new makes it", name, there)
}
