// Package logtool is what the programs for operators of a log elsewhere have in common: pawl-pg and pawl-nats.
package logtool

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
	"github.com/pawl-run/pawl/cluster"
)

// Exit statuses. They are those of the command pawl as far as they mean the same; 3 is not used here. Scripts depend on the numbers.
const (
	exitDone = iota
	exitNo
	exitUnusable
	_
	exitLocked
)

// They say only which exit status an error has.
var (
	// ErrNo says that there is something to be done, which the command has told already.
	ErrNo = errors.New("there is something to be done")
	// ErrNoServer says that no server answers: it is wrapped around the error that tells why.
	ErrNoServer = errors.New("no server answers")
	errUsage    = errors.New("the flags are wrong")
)

// A Program is a program with some commands.
type Program struct {
	Name  string
	Usage string // what is printed where no command is named
	// Commands do what the arguments behind their name say. They return errors, which Program prints.
	Commands map[string]func(ctx context.Context, args []string, out, errs io.Writer) error
	// Found are the errors that say that a command has found something: they have the exit status 1, as ErrNo has.
	Found []error
}

// Main does what the command line of this process says, and ends the process.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := p.RunArguments(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// RunArguments does what a command line says, and returns the exit status.
//
// It alone prints errors and chooses the status. ErrNo has no text of its own to print, since the command has printed its report. Package flag prints
// what is wrong with flags, and asking for -help is no failure.
func (p Program) RunArguments(ctx context.Context, args []string, out, errs io.Writer) int {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, name) {
		fmt.Fprint(out, p.Usage)
		return exitDone
	}
	command := p.Commands[name]
	if command == nil {
		fmt.Fprint(errs, p.Usage)
		return exitUnusable
	}
	err := command(ctx, args[1:], out, errs)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.Is(err, ErrNo):
		return exitNo
	case !errors.Is(err, errUsage): // package flag has told of that
		fmt.Fprintf(errs, "%s: %v\n", p.Name, err)
	}
	switch {
	case slices.ContainsFunc(p.Found, func(found error) bool { return errors.Is(err, found) }):
		return exitNo
	case errors.Is(err, pawl.ErrLocked), errors.Is(err, ErrNoServer):
		return exitLocked
	}
	return exitUnusable
}

// ParseFlags reads the arguments behind the name of a command, and requires that many behind the flags. The user has been told about its
// errors when it returns.
func ParseFlags(f *flag.FlagSet, args []string, operands int) error {
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

// A Recovery is the command recover: it begins the log of a cluster anew from an engine directory that is whole.
type Recovery struct {
	Name    string // of the cluster
	keyFile string
	giveUp  int
}

// AddFlags adds the flags of the command. nameUsage says what the name of the cluster is.
//
// -give-up is the consent to lose the entries that the log has, or had, and the directory lacks. Without it nothing changes in the log, and the
// status 1 says that there would be something to do.
func (r *Recovery) AddFlags(f *flag.FlagSet, nameUsage string) {
	f.StringVar(&r.Name, "name", "pawl", nameUsage)
	f.StringVar(&r.keyFile, "key-file", "", "the keys of sealed values, a `FILE` with a line each: an id, and 32 bytes in base64")
	f.IntVar(&r.giveUp, "give-up", -1, "begin the log anew, and give up at most `N` entries that the directory lacks; without it, only report")
}

// RecoverLog recovers the log from the directory at a path, and prints the report. openBackend is called when the path has been looked at: a wrong
// one must make nothing at the servers. closeBackend, which it returns beside a nil error, is called in the end.
func (r *Recovery) RecoverLog(ctx context.Context, path string, out io.Writer, openBackend func() (b cluster.Backend, closeBackend func(), err error)) error {
	o := pawl.RecoverOptions{Begin: r.giveUp >= 0, GiveUp: max(r.giveUp, 0)}
	if r.keyFile != "" {
		keys, err := aesgcm.ReadKeyFile(r.keyFile)
		if err != nil {
			return err
		}
		o.Codec = keys
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	b, closeBackend, err := openBackend()
	if err != nil {
		return err
	}
	defer closeBackend()
	if o.Log, err = b.NewLog(ctx); err != nil {
		return err
	}
	o.Bases = b.Bases
	report, err := pawl.Recover(ctx, path, o)
	if report.Directory.Seq != 0 { // it says what the directory has, also beside an error
		_, wrong := fmt.Fprintln(out, strings.TrimSuffix(report.String(), "\n"))
		err = errors.Join(err, wrong)
	}
	if err == nil && !report.Begun {
		err = ErrNo
	}
	return err
}
