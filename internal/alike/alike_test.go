package alike

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// Members whose messages differ by numbers are one group, which says when its first and its last member came.
func TestGroups(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2030, 1, 1, 0, minute, 0, 0, time.UTC) }
	var g Groups
	add := func(code, message string, minute int) {
		l := pawl.DeadLetter{Workflow: "import", Node: "load", Failure: workflow.Failure{Code: code, Message: message}, At: at(minute)}
		g.Add(KeyOfLetter(&l), l.Failure.Message, l.At)
	}
	add("lost", "gone", 1)
	require.False(t, g.AreAlike())
	add("bad_row", "line 17 of 5fe3a1 has 4 fields", 7)
	add("bad_row", "line 8 of 0b has 12 fields", 3)
	add("lost", "gone", 2)
	add("bad_row", "line 9 of 0c has 3 fields", 5)
	require.True(t, g.AreAlike())
	require.Equal(t, 5, g.N)
	require.Equal(t, []Group{
		{Key{"import", "load", "bad_row", "line # of # has # fields"}, 3, "line # of # has # fields", at(3), at(7)},
		{Key{"import", "load", "lost", "gone"}, 2, "gone", at(1), at(2)},
	}, g.Rows())
}

// An approval without a time-out has no instant, and a member with one gives the group its own.
func TestInstantsMayLack(t *testing.T) {
	var g Groups
	key := KeyOfApproval(&pawl.Approval{Workflow: "order", Node: "approve", Message: strings.Repeat("ä1", 300)})
	require.Len(t, []rune(key.Shape), shapeLength)
	g.Add(key, "", time.Time{})
	require.Zero(t, g.Rows()[0].From)
	due := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	g.Add(key, "", due)
	g.Add(key, "", time.Time{})
	require.Equal(t, due, g.Rows()[0].From)
	require.Equal(t, due, g.Rows()[0].To)
}
