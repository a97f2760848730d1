package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A console is where a command reads and writes. Tests make one with buffers and a clock of theirs.
// Nothing changes it after newConsole but runArguments.
type console struct {
	In   io.Reader
	Out  io.Writer // what was asked for
	Errs io.Writer // what is said about it

	Width  int  // columns of Out; 0 is no bound: Out is no terminal
	Color  bool // Out takes colours
	Screen bool // Out is a terminal that can be cleared
	Live   bool // Errs is a terminal, in which a line can be written anew
	Room   int  // columns of Errs, if it is one; 0 if it does not tell

	Now  func() time.Time // the clock by which spans of time are told
	hook *testhook.Hook   // nil outside tests

	Patience time.Duration // how long an engine may take that is asked while a word is completed

	args    []string      // of a command line
	named   bool          // it has a --dir
	lines   *bufio.Reader // of In, once a line was asked for
	written *keptWriter   // Out of a command line

	looks bool        // the command changes nothing, and gives way to an engine
	end   func(error) // ends the context of the command, with a cause
}

// newConsole returns the console of the process. COLUMNS is the width if it is set, else the terminal's. There are colours on a terminal
// unless NO_COLOR is set, see https://no-color.org.
func newConsole(in, out, errs *os.File) *console {
	con := &console{In: in, Out: out, Errs: errs, Live: isTerminal(errs), Now: time.Now, Patience: completeTime}
	if con.Live {
		con.Room, _, _ = term.GetSize(int(errs.Fd())) // 0 if it does not tell
	}
	if isTerminal(out) {
		con.Screen = os.Getenv("TERM") != "dumb"
		con.Color = os.Getenv("NO_COLOR") == "" && con.Screen
		con.Width, _, _ = term.GetSize(int(out.Fd())) // 0 if it does not tell
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		con.Width = n
	}
	return con
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// A jsonWriter writes JSON, in which it escapes what a terminal would obey: package json leaves that in which is beyond ASCII.
type jsonWriter struct{ to io.Writer }

// Write implements io.Writer for whole values.
func (w jsonWriter) Write(text []byte) (int, error) {
	var out []byte
	for _, r := range string(text) {
		if r >= 0x7f && isUnprintable(r) {
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, "\\u%04x", unit)
			}
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	_, err := w.to.Write(out)
	return len(text), err
}

// A keptWriter is where commands write, and keeps the first error of that, which finish tells: a command goes on, as most look at none.
type keptWriter struct {
	to   io.Writer
	err  atomic.Pointer[error]
	gone func() // called when the reader has gone; nil of a command that goes on to its end
}

// Write implements io.Writer. A pipe whose reader has gone is no error: the reader has what it wanted.
func (w *keptWriter) Write(text []byte) (int, error) {
	n, err := w.to.Write(text)
	switch {
	case err == nil:
	case !errors.Is(err, syscall.EPIPE):
		w.err.CompareAndSwap(nil, &err)
	case w.gone == nil:
		return len(text), nil
	default:
		w.gone()
	}
	return n, err
}

// errNoReader says why a command that only looks has ended early: nobody reads what it writes.
var errNoReader = errors.New("the reader of the output has gone")

// writeLine writes a line for people, or v as one of JSON. finish tells the error of an output. Each value is one line of JSON, so programs read the output line by line while it
// comes.
func (con *console) writeLine(asJSON bool, v any) {
	if asJSON {
		_ = json.NewEncoder(jsonWriter{con.Out}).Encode(v)
	} else {
		con.printProse("%v", v)
	}
}

// readLine returns the next line of the input without its end. The error is io.EOF behind the last one, or the cause of ctx.
// Nobody may read con.In beside it.
func (con *console) readLine(ctx context.Context) (string, error) {
	if con.lines == nil {
		con.lines = bufio.NewReader(con.In)
	}
	text, err := awaitInput(ctx, func() (string, error) { return con.lines.ReadString('\n') })
	if text = strings.TrimRight(text, "\r\n"); text != "" {
		err = nil // the last line may have no end
	}
	return text, err
}

// awaitInput returns what read returns, or the cause of ctx, which does not wait for the input. A read from a terminal or a pipe
// cannot be interrupted, so it goes on in its goroutine when ctx is done; the process ends soon after.
func awaitInput[T any](ctx context.Context, read func() (T, error)) (T, error) {
	done := make(chan struct{})
	var got, none T
	var err error
	go func() { // ends with the input, or the process
		defer close(done)
		got, err = read()
	}()
	select {
	case <-done:
		return got, err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// errorText returns what an error says to people, printable, and without the code of an answer, which is for programs. The code is not lost: it
// chooses the exit status, and JSON has it where refusals are printed.
func errorText(err error) string {
	text, refused := err.Error(), (*api.Error)(nil)
	if errors.As(err, &refused) {
		text = strings.Replace(text, refused.Error(), refused.Message, 1)
	}
	// An error of a file says by itself which run is corrupt, and so may all that hand it on.
	said := map[string]bool{}
	return printableLines(strings.Join(slices.DeleteFunc(strings.Split(text, ": "), func(part string) bool {
		again := said[part] && (part == pawl.ErrCorrupt.Error() || strings.HasPrefix(part, `run "`))
		said[part] = true
		return again
	}), ": "))
}

// finish says what went wrong and returns the exit status. errNo is silent, as the answer was
// written; an answer that was not is an error. At most one hint follows, of the first error in the list that fits.
func (con *console) finish(err error) int {
	if con.written != nil && (err == nil || errors.Is(err, errNo)) {
		if lost := con.written.err.Load(); lost != nil {
			err = *lost
		}
	}
	if told := (*toldError)(nil); statusOf(err) == exitInterrupted && !errors.As(err, &told) {
		err = &toldError{"interrupted", err}
	}
	if err != nil && !errors.Is(err, errNo) {
		fmt.Fprintln(con.Errs, "pawl:", errorText(err))
		if hint := con.hintOf(err); hint != "" {
			fmt.Fprintln(con.Errs, "hint:", hint)
		}
	}
	return statusOf(err)
}

// hintOf returns what may help; "" if nothing is known. A command that changes runs takes those of one directory, and none as DIR:RUN.
func (con *console) hintOf(err error) string {
	if errors.Is(err, pawl.ErrRunNotFound) && !con.looks {
		for _, arg := range con.args {
			if dir, run, ok := replay.SplitName(arg); ok {
				return printableText(fmt.Sprintf("the run %s of %s is named as %[1]s --dir %[2]s", run, dir))
			}
		}
	}
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return h.text
		}
	}
	return ""
}

// writeValue writes a value as JSON for people, on several lines.
func (con *console) writeValue(v any) error {
	e := json.NewEncoder(jsonWriter{con.Out})
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// inTest calls f with a *testing.T and ends the process with the status that f returns.
//
// Virtual time comes from testing/synctest, whose bubbles need a *testing.T, and only the test runner makes those. So the runner is started
// on one test, in which everything happens. Its flags are registered and parsed, from no arguments, since it asks for them; and f ends the
// process from within the test, so that the runner prints nothing of its own.
func inTest(f func(t *testing.T) int) {
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil {
		panic(err) // no arguments are always right
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "pawl", F: func(t *testing.T) { os.Exit(f(t)) }}}, nil, nil)
}

// whileWorking does something that may take long. A terminal is told of it once, when a second has passed. One write makes the whole
// line, so that it stands between lines of do.
func (con *console) whileWorking(what string, do func() error) error {
	if con.Live {
		defer time.AfterFunc(time.Second, func() { fmt.Fprint(con.Errs, printableText(what)+" ...\n") }).Stop()
	}
	return do()
}

// progressEvery is how often the progress of a run is looked at, and how long a run goes on before anything is said; quietLooks is how many
// looks pass between two lines where they cannot be written anew.
const (
	progressEvery = time.Second
	quietLooks    = 10
)

// A progress tells on con.Errs how far a run has come. One goroutine uses it; blocked may be read when followRun has returned.
type progress struct {
	con     *console
	run     workflow.RunID
	inspect func(workflow.RunID) (pawl.Snapshot, error)
	blocked bool // the run waits for what only people can give

	looks int
	shown int // lines that are written anew
}

// followRun tells the progress with every tick until ctx ends, or the run is blocked.
func (p *progress) followRun(ctx context.Context, tick <-chan time.Time) {
	defer p.clear()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		s, err := p.inspect(p.run)
		if err != nil || s.Status.Final() {
			return // the wait tells
		}
		p.show(s)
		if p.blocked = p.isBlocked(s); p.blocked {
			return
		}
	}
}

// show tells how a run stands: in the same lines of a terminal, else now and then.
func (p *progress) show(s pawl.Snapshot) {
	p.looks++
	lines := progressLines(s)
	if !p.con.Live {
		if p.looks%quietLooks == 1 {
			fmt.Fprintln(p.con.Errs, strings.Join(lines, "\n"))
		}
		return
	}
	p.clear()
	for _, line := range lines { // a line that is broken could not be taken back
		if p.con.Room > 0 {
			line = columns.Cut(line, p.con.Room-1)
		}
		fmt.Fprintln(p.con.Errs, line)
	}
	p.shown = len(lines)
}

// clear takes back the lines that are shown.
func (p *progress) clear() {
	if p.shown > 0 {
		fmt.Fprintf(p.con.Errs, "\x1b[%dA\x1b[J", p.shown)
		p.shown = 0
	}
}

// isBlocked reports whether all that lives waits for people, signals or an operator, also in the child runs that it waits for, and time
// alone changes nothing. A token that is dispatched, or that waits for a timer or a retry, changes something by itself. An alarm of the run
// does so as well: a timeout, or an approval that expires.
func (p *progress) isBlocked(s pawl.Snapshot) bool {
	if !s.Alarm.IsZero() || s.Live == 0 && s.Status != workflow.RunRunning { // one that runs has an open group
		return false
	}
	for _, t := range s.Tokens {
		switch t.Status {
		case workflow.Completed, workflow.Failed, workflow.TimedOut, workflow.Cancelled:
		case workflow.WaitingForApproval, workflow.WaitingForEvent, workflow.WaitingForOperator, workflow.WaitingForSiblings, workflow.WaitingForJoin, workflow.WaitingForLock,
			workflow.WaitingForBudget:
		case workflow.WaitingForChild:
			child, err := p.inspect(state.ChildID(s.Run, t.ID, t.Attempt))
			if err != nil || !p.isBlocked(child) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// progressLines returns a line of the run, and one with a bar for each fan-out whose join
// has not fired; fan-outs of one node count together.
func progressLines(s pawl.Snapshot) []string {
	done, live := 0, map[workflow.NodeID]int{}
	var places []workflow.NodeID
	for _, t := range s.Tokens {
		if !t.Live() {
			done++
			continue
		}
		if live[t.Node] == 0 {
			places = append(places, t.Node)
		}
		live[t.Node]++
	}
	first := fmt.Sprintf("%s %v: %d done", s.Run, s.Status, done)
	for i, node := range places {
		if i == 4 {
			first += fmt.Sprintf(" and %d more nodes", len(places)-4)
			break
		}
		sep := ", at "
		if i > 0 {
			sep = ", "
		}
		first += fmt.Sprintf("%s%s (%d)", sep, node, live[node])
	}
	return append([]string{first}, fanOutLines(s.Groups)...)
}

// barWidth is how many columns a bar has.
const barWidth = 24

func fanOutLines(groups []pawl.Group) []string {
	type sum struct{ total, over, failed, running int }
	sums := map[string]*sum{}
	var names []string
	for _, g := range groups {
		if g.Phase != workflow.Gathering {
			continue
		}
		name := string(g.Node)
		if g.Name != "" {
			name += " " + g.Name
		}
		if sums[name] == nil {
			sums[name] = &sum{}
			names = append(names, name)
		}
		s := sums[name]
		s.total, s.over, s.failed, s.running = s.total+g.Total, s.over+g.Arrived+g.Ended+g.Failed, s.failed+g.Failed, s.running+g.Running
	}
	var lines []string
	for _, name := range names {
		s := sums[name]
		full := s.over * barWidth / max(s.total, 1)
		line := fmt.Sprintf("  %s %s%s %d of %d", name, strings.Repeat("█", full), strings.Repeat("░", barWidth-full), s.over, s.total)
		if s.running > 0 {
			line += fmt.Sprintf(" · %d running", s.running)
		}
		if s.failed > 0 {
			line += fmt.Sprintf(" · %d failed", s.failed)
		}
		lines = append(lines, line)
	}
	return lines
}

// printProse writes lines that are read, not copied: a line wider than the console goes on in lines below.
func (con *console) printProse(format string, args ...any) {
	for _, line := range strings.Split(printableLines(fmt.Sprintf(format, args...)), "\n") {
		for _, part := range columns.WrapLine(line, con.Width) {
			fmt.Fprintln(con.Out, part)
		}
	}
}

// wrappedLines bounds the lines of one cell of a table, and of the particulars of an event.
const wrappedLines = 3

// printItems writes a list behind what it is of, and goes on in lines below between its items.
func (con *console) printItems(of string, items []string) {
	line, hang := of, strings.Repeat(" ", diagram.CountColumns(of))
	for i, item := range items {
		next := line + strings.Repeat(" ", columns.Gap) + item
		if con.Width > 0 && i > 0 && diagram.CountColumns(printableText(next)) > con.Width {
			con.printLine("%s", line)
			next = hang + strings.Repeat(" ", columns.Gap) + item
		}
		line = next
	}
	con.printLine("%s", line)
}

// printBeside writes a text beside what it is of. A text that is too long for the line goes on below, at the same column.
func (con *console) printBeside(of, text string) {
	of += strings.Repeat(" ", columns.Gap)
	hang := diagram.CountColumns(of)
	if con.Width == 0 || con.Width < hang+columns.Least {
		con.printLine("%s%s", of, text)
		return
	}
	for _, part := range columns.Wrap(printableText(text), con.Width-hang, wrappedLines) {
		con.printLine("%s%s", of, part)
		of = strings.Repeat(" ", hang)
	}
}

// holdsTable reports whether the console has room for so many columns, none narrower than its widest word.
func (con *console) holdsTable(rows [][]string) bool {
	least := columns.Widths(rows, func(cell string) int { return columns.WidestWord(printableText(cell)) })
	return con.Width == 0 || columns.TableWidth(least) <= con.Width
}

// printFields writes rows below a head one field a line, for a table that is too wide. pawl sql
// takes it where holdsTable says no: its columns are the user's, as many as the query has.
func (con *console) printFields(rows [][]string) {
	names := 0
	for _, name := range rows[0] {
		names = max(names, diagram.CountColumns(printableText(name)))
	}
	for n, row := range rows[1:] {
		con.printLine("row %d", n+1)
		for i, cell := range row {
			name := printableText(rows[0][i])
			con.printBeside("  "+name+strings.Repeat(" ", names-diagram.CountColumns(name)), cell)
		}
	}
}
