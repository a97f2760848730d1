package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A terminal is told how long something takes, from the first second on, and the line is
// taken back; nobody else is told.
func TestTellWhile(t *testing.T) {
	failure := errors.New("it failed")
	for _, live := range []bool{true, false} {
		var errs strings.Builder
		con := &console{Errs: &errs, Live: live}
		tick := make(chan time.Time)
		err := con.tellWhile("verifying data", tick, func() error {
			if live {
				tick <- time.Time{}
				tick <- time.Time{}
			}
			return failure
		})
		assert.Equal(t, failure, err)
		if live {
			assert.Equal(t, "\rverifying data: 1s\rverifying data: 2s\r\x1b[K", errs.String())
		} else {
			assert.Empty(t, errs.String())
		}
	}
	screen := &watchedScreen{shown: make(chan bool, 1)}
	con := &console{Out: screen, Errs: screen, Live: true}
	tick := make(chan time.Time)
	next := func() {
		tick <- time.Time{}
		<-screen.shown
	}
	assert.NoError(t, con.tellWhile("replaying", tick, func() error {
		con.printLine("first")
		next()
		con.printLine("second")
		return con.whileWorking("reading", func() error {
			next()
			return nil
		})
	}))
	assert.Equal(t, "first\n\rreplaying: 1s\r\x1b[Ksecond\n\rreplaying: 2s\r\x1b[K", screen.String(), "what is written takes the line back")
	assert.Same(t, screen, con.Out)
	assert.True(t, con.Live)
	var errs strings.Builder
	con = &console{Errs: &errs, Live: true}
	assert.NoError(t, con.whileWorking("nothing", func() error { return nil }))
	assert.Empty(t, errs.String(), "it took less than a second")
}

// A watchedScreen is a terminal that tells when a line is shown that will be taken back.
type watchedScreen struct {
	strings.Builder
	shown chan bool
}

// Write implements io.Writer.
func (w *watchedScreen) Write(p []byte) (int, error) {
	n, err := w.Builder.Write(p)
	if strings.HasPrefix(string(p), "\r") && !strings.Contains(string(p), "\x1b") {
		w.shown <- true
	}
	return n, err
}
