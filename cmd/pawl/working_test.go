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
	var errs strings.Builder
	con := &console{Errs: &errs, Live: true}
	assert.NoError(t, con.whileWorking("nothing", func() error { return nil }))
	assert.Empty(t, errs.String(), "it took less than a second")
}
