package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// No line is wider than the console, also with letters that take two columns, and nothing is hidden in one.
func TestNoLineIsTooWide(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 200), strings.Repeat("注文", 70), strings.Repeat("e\u0301", 150), "a" + strings.Repeat("注文b", 60), strings.Repeat("😀", 60)} {
		for width := range 90 {
			short := columns.Elide(text, width)
			require.LessOrEqual(t, diagram.CountColumns(short), width)
			require.GreaterOrEqual(t, diagram.CountColumns(short), width-2, "%d: %s", width, short)
		}
		var out strings.Builder
		con := &console{Out: &out, Width: 40}
		con.printLine("%s", text)
		con.printTable([][]string{{"RUN", "NODE", "STATUS"}, {text, text, "running"}, {"a", "b", "paused"}})
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, diagram.CountColumns(strings.TrimSuffix(line, "\n")), 40, line)
		}
	}
	require.Equal(t, "a·b·c·d", printableText("a\u200bb\u202ec\u2066d"))
}

// Where tokens do different things, each number is told; for a single token there is no number.
func TestTokensText(t *testing.T) {
	for want, tokens := range map[string]map[workflow.TokenStatus]int{
		"":                                     {workflow.Completed: 3},
		"parked":                               {workflow.WaitingForOperator: 1},
		"23 task out · 1 parked":               {workflow.Dispatched: 23, workflow.WaitingForOperator: 1},
		"2 done · task out":                    {workflow.Completed: 2, workflow.Dispatched: 1},
		"9,812 done · 1 task out · 1 retrying": {workflow.Completed: 9812, workflow.Dispatched: 1, workflow.Retrying: 1},
	} {
		require.Equal(t, want, tokensText(tokens))
	}
}

// Where a table does not fit, a column without a text is left out and long cells go on below, whole up to three lines:
// neither a status nor an id lacks its middle while another column can be broken between words.
func TestTablesWrap(t *testing.T) {
	var out strings.Builder
	con := &console{Out: &out, Width: 40}
	con.printTable([][]string{
		{"RUN", "DUE", "STATUS", "WHAT"},
		{"order-2026-11", "", "completed", "card: http_503, the bank is closed"},
		{"order-2", "", "failed", "short"},
	})
	require.Equal(t, `RUN            STATUS     WHAT
order-2026-11  completed  card:
                          http_503, the
                          bank is closed
order-2        failed     short
`, out.String())

	out.Reset()
	con.printTable([][]string{
		{"RUN", "STATUS", "AT", "NEXT"},
		{"order-2026-11", "failed", "card: http_503 after 5 attempts, the bank is closed, which its monitoring says since 03:12: try tomorrow", "fork"},
	})
	require.Equal(t, `RUN            STATUS  AT           NEXT
order-2026-11  failed               fork
    card: http_503 after 5 attempts, the
    bank is closed, which its monitoring
    says since 03:12: try tomorrow
`, out.String(), "nothing of it is cut")
	require.Equal(t, []string{`{"a":1,`, `"b":22}`}, columns.Wrap(`{"a":1,"b":22}`, 8, 3))
	require.Equal(t, []string{"xxxx", "xxx"}, columns.Wrap("xxxxxxx", 4, 3))
	require.Len(t, columns.Wrap(strings.Repeat("ab cd,", 100), 20, 3), 3)
	require.Contains(t, strings.Join(columns.Wrap("begin"+strings.Repeat("x", 100)+"end", 10, 3), ""), "…")

	out.Reset()
	con.printItems("  done", []string{"received ×1", "pay ×1", "stock ×12", "ship ×1", "failed ×1"})
	require.Equal(t, "  done  received ×1  pay ×1  stock ×12\n        ship ×1  failed ×1\n", out.String())
}

// Prose breaks between words and loses nothing; a line that goes on is further in. A command stays
// whole.
func TestWrapLine(t *testing.T) {
	require.Equal(t, []string{"  one two", "     three", "     four"}, columns.WrapLine("  one two three four", 11))
	require.Equal(t, []string{"  one two three four"}, columns.WrapLine("  one two three four", 0))
	require.Equal(t, []string{"  try: pawl vote order-42 approve yes"}, columns.WrapLine("  try: pawl vote order-42 approve yes", 11))
	for _, text := range []string{strings.Repeat("x", 200), strings.Repeat("注文 ", 70), "  " + strings.Repeat("word ", 40), "a " + strings.Repeat("注", 60), strings.Repeat(" ", 90)} {
		for width := 1; width < 100; width++ {
			parts := columns.WrapLine(text, width)
			require.Equal(t, strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(strings.Join(parts, ""), " ", ""), "width %d", width)
			for _, part := range parts[:len(parts)-1] {
				require.LessOrEqual(t, diagram.CountColumns(part), max(width, 2))
			}
		}
	}
}

// unshown are the commands whose output is in no script, each with the reason.
var unshown = map[string]string{
	"completion": "a program for a shell, whatever the width",
	"gen":        "a program, whatever the width",
	"restore":    "times of a copy that follows an engine",
	"serve":      "addresses and a key, until it is interrupted",
	"trace":      "a file for a program, whatever the width",
	"version":    "that of the build",
	"worker":     "addresses, until it is interrupted",
}

// The output of every command stands in a script, at 80 columns and at 160.
func TestEveryCommandAtTwoWidths(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	require.NoError(t, err)
	shown := map[string]map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		addShown(shown, string(text))
	}
	var missing []string
	for _, v := range verbs() {
		for _, columns := range []string{"80", "160"} {
			if !shown[v.name][columns] && unshown[v.name] == "" && !v.hidden {
				missing = append(missing, v.name+" at "+columns)
			}
		}
	}
	require.Empty(t, missing)
}

var (
	setWidth   = regexp.MustCompile(`^env COLUMNS=([0-9]+)$`)
	comparison = regexp.MustCompile(`^cmp(sized)? std(out|err) `)
	playedVerb = regexp.MustCompile(`^(?:! )?(?:pawl|(?:status|process) [0-9]+) ([a-z]+)`)
)

// addShown adds the widths at which a script compares what each command prints.
func addShown(shown map[string]map[string]bool, script string) {
	columns, name := "", ""
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "-- ") {
			return
		}
		if m := setWidth.FindStringSubmatch(line); m != nil {
			columns = m[1]
		} else if m := playedVerb.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if name != "" && comparison.MatchString(line) {
			if shown[name] == nil {
				shown[name] = map[string]bool{}
			}
			shown[name][columns] = true
		}
	}
}

// Each event of a schedule says what became of the firing, and why.
func TestEventsOfSchedules(t *testing.T) {
	at := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	run := workflow.RunID("nightly@2026-11-30T02:00:00Z")
	for want, ev := range map[string]schedule.Event{
		"running, " + string(run):                            {Kind: "started", Cause: "instant", Run: run},
		"started, n":                                         {Kind: "started", Cause: "instant", Run: "n"},
		"failed, n, backfill by ann":                         {Kind: "started", Cause: "backfill", Run: "n", Status: workflow.RunFailed, EndedAt: at, By: "ann"},
		"joined, n was there already":                        {Kind: "joined", Cause: "instant", Run: "n"},
		"waiting, until run n has ended":                     {Kind: "waiting", Cause: "instant", Run: "n"},
		"refused, no such workflow, trigger by ann: now":     {Kind: "refused", Cause: "trigger", Error: "no such workflow", By: "ann", Reason: "now"},
		"skipped, overlap: run n was not over":               {Kind: "skipped", Cause: "instant", Skip: "overlap", Run: "n"},
		"skipped, most: later ones were made up for instead": {Kind: "skipped", Cause: "instant", Skip: "most"},
		"skipped, paused: the schedule was":                  {Kind: "skipped", Cause: "instant", Skip: "paused"},
		"skipped, except: the schedule leaves it out":        {Kind: "skipped", Cause: "instant", Skip: string(schedule.LeftExcept)},
		"skipped, missing: clocks jumped over it":            {Kind: "skipped", Cause: "instant", Skip: string(schedule.LeftMissing)},
		"skipped, repeated: the clock showed it twice":       {Kind: "skipped", Cause: "instant", Skip: string(schedule.LeftRepeated)},
		"skipped, another":                                   {Kind: "skipped", Cause: "instant", Skip: "another"},
		"paused, too many failures":                          {Kind: "paused", Reason: "too many failures"},
		"skipped, 1,000 instants until 2026-12-01T02:00:00Z; window: it was due before that of catchUp": {Kind: "skipped", Cause: "instant", Skip: "window", Count: 1000, Until: at},
	} {
		ev.At = at
		require.Equal(t, []string{"  2026-12-01T02:00:00Z", want}, append(eventRow(&ev, []workflow.RunID{run})[:1], strings.Join(eventRow(&ev, []workflow.RunID{run})[1:], ", ")))
	}
	require.Equal(t, []string{"0ms", "999ms", "1m30s"}, []string{lagText(0), lagText(999), lagText(90_000)})
}

// Where nobody knows whether an act on a schedule was done, a definition published or a run purged, the hint leads there, not to the journal of a run.
func TestUnknownActOnASchedule(t *testing.T) {
	var errs strings.Builder
	con := &console{Errs: &errs}
	require.Equal(t, exitUnknown, con.finish(markUnknown(fmt.Errorf("pause: %w", pawl.ErrUnknown), errOfSchedule)))
	require.Contains(t, errs.String(), "hint: it may have been done: pawl schedule show tells")
	require.Equal(t, exitUnknown, con.finish(markUnknown(pawl.ErrUnknown, errOfPublish)))
	require.Contains(t, errs.String(), "hint: it may be published: the same command again tells")
	require.Equal(t, exitUnknown, con.finish((&purgeCommand{}).tellSum(&console{Out: io.Discard, Errs: io.Discard}, &reached{}, &purgeSum{unknown: 1}, "purge")))
	require.Contains(t, errs.String(), "hint: it may be purged: pawl ls tells")
	require.Equal(t, exitRefused, con.finish(markUnknown(pawl.ErrBusy, errOfSchedule)))
}

// A token in a few words says of a task that nobody performs yet that it is queued.
func TestTokenCells(t *testing.T) {
	token := pawl.Token{ID: 2, Node: "a", Status: workflow.Dispatched}
	require.Equal(t, []string{"a", "t2", "task out"}, dirFlag{}.tokenCells(&token, time.Now()))
	token.Queued = &workflow.Queued{For: workflow.QueuedForSlot}
	require.Equal(t, []string{"a", "t2", "queued"}, dirFlag{}.tokenCells(&token, time.Now()))
}

// An explanation tells all its instants in one form, and in JSON as the engine has given them.
func TestExplanationHasOneFormOfInstants(t *testing.T) {
	at := time.Date(2026, 11, 28, 21, 52, 38, 0, time.UTC)
	for asJSON, want := range map[bool]string{false: "its task: runs since 2026-11-28 21:52:38.000 (w1)\n  until 2026-11-28 22:52:38.000", true: "runs since 2026-11-28T21:52:38Z (w1)"} {
		x := replay.Explanation{At: at, Waits: []replay.Wait{{For: "its task: runs since 2026-11-28T21:52:38Z (w1)", Since: at.Local(), Until: at.Add(time.Hour)}}}
		var out strings.Builder
		c := &whyCommand{}
		c.UTC, c.JSON = true, asJSON
		c.writeExplanation(&console{Out: &out}, &x, true)
		require.Contains(t, out.String(), want)
	}
}
