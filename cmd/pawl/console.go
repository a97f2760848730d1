package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/testhook"
)

// A console is where a command reads and writes. Tests make one with buffers and a clock of theirs.
// tellWhile replaces Out, Errs and Live for a while; nothing else changes it after newConsole but
// runArguments without arguments.
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

	lines *bufio.Reader // of In, once a line was asked for

	looks bool        // the command changes nothing, and gives way to an engine
	end   func(error) // ends the context of the command, with a cause
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

// writeLine writes a line for people, or v as one of JSON. Nothing can be done about an output that
// is closed. Each value is one line of JSON, so programs read the output line by line while it
// comes.
func (con *console) writeLine(asJSON bool, v any) {
	if asJSON {
		_ = json.NewEncoder(jsonWriter{con.Out}).Encode(v)
	} else {
		con.printProse("%v", v)
	}
}

// readLine returns the next line of the input without its end. The error is io.EOF behind the last
// one, or the cause of ctx, which does not wait for the input. A read from a terminal cannot be
// interrupted, so it goes on in its goroutine when ctx is done; the process ends soon after. Nobody
// may read con.In beside it.
func (con *console) readLine(ctx context.Context) (string, error) {
	if con.lines == nil {
		con.lines = bufio.NewReader(con.In)
	}
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() { // ends with the input, or the process
		text, err := con.lines.ReadString('\n')
		read <- line{strings.TrimRight(text, "\r\n"), err}
	}()
	select {
	case l := <-read:
		if l.text != "" {
			l.err = nil // the last line may have no end
		}
		return l.text, l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// errorText returns what an error says to people, without the code of an answer, which is for
// programs. The code is not lost: it chooses the exit status, and JSON has it where refusals are
// printed.
func errorText(err error) string {
	refused := (*api.Error)(nil)
	if errors.As(err, &refused) {
		return strings.Replace(err.Error(), refused.Error(), refused.Message, 1)
	}
	return err.Error()
}

// finish says what went wrong and returns the exit status. errNo is silent, as the answer was
// written. At most one hint follows, of the first error in the list that fits.
func (con *console) finish(err error) int {
	if told := (*toldError)(nil); statusOf(err) == exitInterrupted && !errors.As(err, &told) {
		err = &toldError{"interrupted", err}
	}
	if err != nil && !errors.Is(err, errNo) {
		fmt.Fprintln(con.Errs, "pawl:", printableLines(errorText(err)))
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
	e := json.NewEncoder(jsonWriter{con.Out})
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
