package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"
)

// A console is where a command reads and writes.
type console struct {
	In   io.Reader
	Out  io.Writer // what was asked for
	Errs io.Writer // what is said about it

	Width int  // columns of Out; 0 is no bound: Out is no terminal
	Color bool // Out takes colours
	Live  bool // Errs is a terminal, in which a line can be written anew
	Room  int  // columns of Errs, if it is one; 0 if it does not tell

	Now func() time.Time // the clock by which spans of time are told
}

// newConsole returns the console of the process. COLUMNS is the width if it is set, else
// the terminal's. There are colours on a terminal unless NO_COLOR is set, see
// https://no-color.org.
func newConsole(in, out, errs *os.File) *console {
	con := &console{In: in, Out: out, Errs: errs, Live: isTerminal(errs), Now: time.Now}
	if con.Live {
		con.Room, _, _ = term.GetSize(int(errs.Fd())) // 0 if it does not tell
	}
	if isTerminal(out) {
		con.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		con.Width, _, _ = term.GetSize(int(out.Fd())) // 0 if it does not tell
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		con.Width = n
	}
	return con
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// writeLine writes a line for people, or v as one of JSON. Nothing can be done about an
// output that is closed.
func (con *console) writeLine(asJSON bool, v any) {
	if asJSON {
		_ = json.NewEncoder(con.Out).Encode(v)
	} else {
		_, _ = fmt.Fprintln(con.Out, v)
	}
}

// finish says what went wrong and returns the exit status.
func (con *console) finish(err error) int {
	if err != nil && !errors.Is(err, errNo) {
		fmt.Fprintln(con.Errs, "pawl:", err)
		for _, h := range hints {
			if errors.Is(err, h.err) {
				fmt.Fprintln(con.Errs, "hint:", h.text)
				break
			}
		}
	}
	return statusOf(err)
}

// writeValue writes a value as JSON for people, on several lines.
func (con *console) writeValue(v any) error {
	e := json.NewEncoder(con.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
