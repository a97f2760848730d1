package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// importing is a run in the middle of a fan-out.
func importing() pawl.Snapshot {
	s := pawl.Snapshot{Outcome: workflow.Outcome{Run: "import-1", Status: workflow.RunRunning}, Live: 188}
	s.Tokens = []pawl.Token{{Node: "split", Status: workflow.Completed}}
	for range 185 {
		s.Tokens = append(s.Tokens, pawl.Token{Node: "load", Status: workflow.Dispatched})
	}
	s.Tokens = append(s.Tokens, pawl.Token{Node: "load", Status: workflow.WaitingForOperator})
	s.Groups = []pawl.Group{
		{Name: "files", Node: "split", Total: 10_000, Arrived: 9_000, Ended: 500, Failed: 12, Running: 185},
		{Name: "old", Node: "split", Phase: workflow.Fired, Total: 3, Arrived: 3},
	}
	return s
}

const importLines = "import-1 running: 1 done, at load (186)\n  split files ██████████████████████░░ 9512 of 10000 · 185 running · 12 failed\n"

// On a terminal the lines are written anew with each look, and taken back in the end;
// elsewhere they come once in ten looks.
func TestProgress(t *testing.T) {
	follow := func(live bool, looks int) (string, bool) {
		var errs strings.Builder
		left := looks
		p := &progress{con: &console{Errs: &errs, Live: live, Room: 80}, inspect: func(workflow.RunID) (pawl.Snapshot, error) {
			if left--; left < 0 {
				return pawl.Snapshot{}, errors.New("closed")
			}
			return importing(), nil
		}}
		tick := make(chan time.Time, looks+1)
		for range looks + 1 {
			tick <- time.Time{}
		}
		p.followRun(context.Background(), tick)
		return errs.String(), p.blocked
	}
	text, blocked := follow(true, 2)
	assert.Equal(t, importLines+"\x1b[2A\x1b[J"+importLines+"\x1b[2A\x1b[J", text)
	assert.False(t, blocked)
	text, _ = follow(false, 11)
	assert.Equal(t, importLines+importLines, text)
}

// A run is blocked if only people can move it: not while a task runs or a timer does.
func TestIsBlocked(t *testing.T) {
	s := pawl.Snapshot{Live: 1, Tokens: []pawl.Token{{Status: workflow.Completed}, {Status: workflow.WaitingForApproval}}}
	p := &progress{}
	require.True(t, p.isBlocked(s))
	s.Alarm = time.Unix(1, 0)
	require.False(t, p.isBlocked(s))
	require.False(t, p.isBlocked(importing()))
	parent := pawl.Snapshot{Live: 1, Tokens: []pawl.Token{{ID: 1, Attempt: 1, Status: workflow.WaitingForChild}}}
	p.inspect = func(workflow.RunID) (pawl.Snapshot, error) { return s, nil }
	require.False(t, p.isBlocked(parent), "time changes the child")
	s.Alarm = time.Time{}
	require.True(t, p.isBlocked(parent))
}

// A terminal is told what takes more than a second; nobody else is told.
func TestWhileWorking(t *testing.T) {
	failure := errors.New("it failed")
	for _, c := range []struct {
		live  bool
		lasts time.Duration
		told  string
	}{{true, 3 * time.Second, "replaying ...\n"}, {true, time.Second / 2, ""}, {false, 3 * time.Second, ""}} {
		synctest.Test(t, func(t *testing.T) {
			var errs strings.Builder
			con := &console{Errs: &errs, Live: c.live}
			assert.Equal(t, failure, con.whileWorking("replaying", func() error {
				<-time.After(c.lasts)
				return failure
			}))
			<-time.After(time.Minute)
			synctest.Wait() // the timer has written
			assert.Equal(t, c.told, errs.String())
		})
	}
}
