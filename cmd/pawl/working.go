package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// whileWorking does something that may take long, and says on a terminal for how long it has
// been at it, from the first second on. The function do may write to the console, but not read from
// it.
func (con *console) whileWorking(what string, do func() error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	return con.tellWhile(what, tick.C, do)
}

// tellWhile tells with every tick how many there were, until do has returned. Within another call
// of it that call goes on telling. While do runs, Out and Errs take the line back before they
// write, as both may be the same terminal; Live is off so that a call within this one tells nothing
// of its own.
func (con *console) tellWhile(what string, tick <-chan time.Time, do func() error) error {
	if !con.Live {
		return do()
	}
	line := &workingLine{errs: con.Errs}
	out, errs := con.Out, con.Errs
	con.Live, con.Out, con.Errs = false, lineClearer{line, out}, lineClearer{line, errs}
	defer func() { con.Live, con.Out, con.Errs = true, out, errs }()
	done := make(chan error, 1)
	go func() { done <- do() }() // its end is awaited below
	for n := 1; ; n++ {
		select {
		case err := <-done:
			line.clearText()
			return err
		case <-tick:
			line.showText(fmt.Sprintf("%s: %v", what, time.Duration(n)*time.Second))
		}
	}
}

// A workingLine is the last line of a terminal, which says what goes on, and is taken back before
// anything else is written there. mu guards the terminal too: the ticks and what do writes come
// from two goroutines.
type workingLine struct {
	mu    sync.Mutex
	errs  io.Writer
	shown bool
}

// showText writes the line, over what it said before.
func (l *workingLine) showText(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.errs, "\r%s", text)
	l.shown = true
}

// clearText takes the line back.
func (l *workingLine) clearText() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
}

func (l *workingLine) clearLocked() {
	if l.shown {
		fmt.Fprint(l.errs, "\r\x1b[K")
	}
	l.shown = false
}

// A lineClearer writes to the console while a line is shown there.
type lineClearer struct {
	line *workingLine
	to   io.Writer
}

// Write implements io.Writer.
func (c lineClearer) Write(p []byte) (int, error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.line.clearLocked()
	return c.to.Write(p)
}
