package decision

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A line builds the text of one decision: a verb and its fields. Golden tests
// and traces rely on it.
type line struct{ strings.Builder }

func say(verb string, args ...any) *line {
	l := &line{}
	l.WriteString(verb)
	for _, a := range args {
		fmt.Fprintf(l, " %v", a)
	}
	return l
}

// field appends key=text unless text is empty.
func (l *line) field(key, text string) *line {
	if text != "" {
		fmt.Fprintf(l, " %s=%s", key, text)
	}
	return l
}

// json appends key=value as JSON, shortened, unless v is nil.
func (l *line) json(key string, v any) *line {
	if v == nil {
		return l
	}
	return l.value(key, v)
}

// value is json for a value of which null says something.
func (l *line) value(key string, v any) *line {
	const most = 120
	text := string(value.Encode(v))
	if len(text) > most {
		text = fmt.Sprintf("%s...(%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
	}
	return l.field(key, text)
}

func (l *line) object(key string, m map[string]any) *line {
	if m == nil {
		return l
	}
	return l.json(key, m)
}

func (l *line) time(key string, t time.Time) *line {
	if t.IsZero() {
		return l
	}
	return l.field(key, t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

func (l *line) flag(key string, on bool) *line {
	if on {
		l.WriteString(" " + key)
	}
	return l
}

func (l *line) scope(sc workflow.Scope) *line {
	if sc.Group == 0 {
		return l
	}
	return l.field("in", sc.String())
}

func (l *line) failure(f *workflow.Failure) *line {
	if f == nil {
		return l
	}
	text := f.Code
	if f.Message != "" {
		text += " (" + f.Message + ")"
	}
	return l.field("error", text)
}

// String implements fmt.Stringer.
func (d CreateToken) String() string {
	l := say("create-token", d.Token.ID).field("node", string(d.Token.Node)).scope(d.Token.Scope).
		field("counts", countsText(d.Token.Counts))
	if f := d.Token.Caught; f != nil {
		l.field("caught", f.Code)
	}
	return l.String()
}

func countsText(c state.Counts) string {
	if len(c) == 0 {
		return ""
	}
	m := make(map[string]any, len(c))
	for k, v := range c {
		m[string(k)] = int64(v)
	}
	return string(value.Encode(m))
}

// String implements fmt.Stringer.
func (d CreateBranches) String() string {
	g := d.Group
	var spawns []string
	for _, sp := range g.Spawns {
		spawns = append(spawns, fmt.Sprintf("%s*%d", sp.Transition, sp.Count))
	}
	l := say("create-branches", g.ID).field("group", g.Name).field("origin", g.Origin.String()).scope(g.Scope)
	l.field("spawns", strings.Join(spawns, ","))
	if g.Total > 0 {
		l.field("tokens", fmt.Sprintf("%v..%v", g.First, g.First+workflow.TokenID(g.Total)-1))
	}
	if g.Max > 0 {
		l.field("max", fmt.Sprint(g.Max))
	}
	if d.Items != nil {
		l.json("items", d.Items)
	}
	return l.flag("open", g.Open).String()
}

// String implements fmt.Stringer.
func (d StartBranches) String() string {
	return say("start-branches", d.Group).field("count", fmt.Sprint(d.Count)).String()
}

// String implements fmt.Stringer.
func (d DispatchTask) String() string {
	return say("dispatch-task", d.Token).field("task", d.Task).field("attempt", fmt.Sprint(d.Attempt)).
		json("input", d.Input).time("due", d.Due).time("beat", d.Beat).String()
}

// String implements fmt.Stringer.
func (d ExtendTask) String() string {
	return say("extend-task", d.Token).time("beat", d.Beat).String()
}

// String implements fmt.Stringer.
func (d RetryTask) String() string {
	return say("retry-task", d.Token).time("due", d.Due).failure(d.Failure).String()
}

// String implements fmt.Stringer.
func (d ParkTask) String() string { return say("park-task", d.Token).failure(&d.Failure).String() }

// String implements fmt.Stringer.
func (d AwaitTimer) String() string {
	return say("await-timer", d.Token).time("due", d.Due).time("limit", d.Limit).String()
}

// String implements fmt.Stringer.
func (d AwaitSiblings) String() string {
	return say("await-siblings", d.Token).scope(d.Scope).field("via", string(d.Via)).json("source", d.Source).String()
}

// String implements fmt.Stringer.
func (d CompleteToken) String() string {
	return say("complete-token", d.Token).flag("skipped", d.Skipped).json("output", d.Output).String()
}

// String implements fmt.Stringer.
func (d FailToken) String() string { return say("fail-token", d.Token).failure(&d.Failure).String() }

// String implements fmt.Stringer.
func (d ExpireToken) String() string {
	return say("expire-token", d.Token).failure(&d.Failure).String()
}

// String implements fmt.Stringer.
func (d CancelToken) String() string {
	return say("cancel-token", d.Token).field("reason", d.Reason).String()
}

// String implements fmt.Stringer.
func (d ArriveBranch) String() string {
	return say("arrive-branch", d.Scope).time("due", d.Due).String()
}

// String implements fmt.Stringer.
func (d EndBranch) String() string { return say("end-branch", d.Scope).String() }

// String implements fmt.Stringer.
func (d FailBranch) String() string {
	return say("fail-branch", d.Scope).failure(&d.Failure).String()
}

// String implements fmt.Stringer.
func (d DropBranch) String() string { return say("drop-branch", d.Scope).String() }

// pathText is the text of a path of data, as in state.log[].
func pathText(path []string, element bool) string {
	return value.Path{Segments: path, Append: element}.String()
}

// String implements fmt.Stringer.
func (d MergeBranches) String() string {
	return say("merge-branches", d.Group).scope(d.Scope).field("target", pathText(d.Path, d.Append)).value("value", d.Value).String()
}

// String implements fmt.Stringer.
func (d FireGroup) String() string {
	return say("fire-group", d.Group).flag("cancel", d.Cancel).flag("shortfall", d.Shortfall).flag("timed-out", d.TimedOut).String()
}

// String implements fmt.Stringer.
func (d FailGroup) String() string {
	return say("fail-group", d.Group).flag("shortfall", d.Shortfall).flag("timed-out", d.TimedOut).failure(&d.Failure).String()
}

// String implements fmt.Stringer.
func (d AbandonGroup) String() string { return say("abandon-group", d.Group).String() }

// String implements fmt.Stringer.
func (d SetData) String() string {
	return say("set-data").scope(d.Scope).value(pathText(d.Path, false), d.Value).String()
}

// String implements fmt.Stringer.
func (d AppendData) String() string {
	return say("append-data").scope(d.Scope).value(pathText(d.Path, true), d.Value).String()
}

// String implements fmt.Stringer.
func (d StartRun) String() string {
	return say("start-run").object("input", d.Input).time("due", d.Due).String()
}

// String implements fmt.Stringer.
func (d CompleteRun) String() string { return say("complete-run").object("output", d.Output).String() }

// String implements fmt.Stringer.
func (d FailRun) String() string { return say("fail-run").failure(&d.Failure).String() }

// String implements fmt.Stringer.
func (d ExpireRun) String() string { return say("expire-run").failure(&d.Failure).String() }

// String implements fmt.Stringer.
func (d CancelRun) String() string { return say("cancel-run").failure(&d.Failure).String() }

// String implements fmt.Stringer.
func (d SuspendRun) String() string { return say("suspend-run").failure(&d.Failure).String() }

// String implements fmt.Stringer.
func (d ResumeRun) String() string { return "resume-run" }
