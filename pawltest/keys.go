package pawltest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// rootRun is the id of a scenario's run.
const rootRun workflow.RunID = "scenario"

// compareRuns orders runs: a parent before its children, and those by token and
// attempt.
func compareRuns(a, b workflow.RunID) int {
	as, bs := strings.Split(string(a), "/"), strings.Split(string(b), "/")
	for i := range min(len(as), len(bs)) {
		if c := compareNumbers(as[i], bs[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}

func compareNumbers(a, b string) int {
	at, aa, _ := strings.Cut(a, ".")
	bt, ba, _ := strings.Cut(b, ".")
	return cmp.Or(cmp.Compare(parseNumber(at), parseNumber(bt)), cmp.Compare(parseNumber(aa), parseNumber(ba)), strings.Compare(a, b))
}

func parseNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// tokenOf returns the token that a key is of: a key ends in #TOKEN.ATTEMPT.EPOCH.MAC.
func tokenOf(k pawl.Key) workflow.TokenID {
	text := string(k)
	token, _, _ := strings.Cut(text[strings.LastIndexByte(text, '#')+1:], ".")
	return workflow.TokenID(parseNumber(token))
}

// foreignKey returns a key of an attempt that never was.
func foreignKey(run workflow.RunID, attempt int) pawl.Key {
	return pawl.Key(fmt.Sprintf("%s#%d.%d.%016x.AAAAAAAAAAAAAAAAAAAAAA", string(run), int64(1)<<40, max(attempt, 1), 1))
}

// An attemptName is how a scenario names an attempt.
type attemptName struct {
	run     workflow.RunID
	node    string
	index   int // of the innermost branch, outside of any of the token; -1 for the latest
	attempt int
}

// noteKey remembers the key of a call, for results that events give.
func (d *driver) noteKey(c *call) {
	own := c.Branch.Index
	if c.Branch.Total == 0 {
		own = d.placeOf(c)
	}
	for _, index := range []int{own, -1} {
		d.keys[attemptName{c.Run, string(c.Node), index, c.Attempt}] = c.Key
	}
}

// placeOf returns which of the tokens at its node the token of a call is, in the order of
// their first calls, from 0.
func (d *driver) placeOf(c *call) int {
	at, token := attemptName{run: c.Run, node: string(c.Node)}, tokenOf(c.Key)
	if i := slices.Index(d.tokens[at], token); i >= 0 {
		return i
	}
	d.tokens[at] = append(d.tokens[at], token)
	return len(d.tokens[at]) - 1
}

// keyOf returns the key that a result event names.
func (d *driver) keyOf(of subject, r *resultEvent, index *int) pawl.Key {
	name := attemptName{run: of.run, node: r.Node, index: -1, attempt: max(r.Attempt, 1)}
	if index != nil {
		name.index = *index
	}
	if key := of.copiedKey(d.ctx, name); key != "" {
		return key
	}
	if key, ok := d.keys[name]; ok {
		return key
	}
	return foreignKey(of.run, r.Attempt)
}
