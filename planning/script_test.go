package planning_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/story"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// TestScripts plays each file of testdata against the planner; README.md there
// lists the commands. Run `go test ./planning -run Scripts -rewrite` and read
// the diff to accept a change.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return
		}
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
		if s.player != nil {
			s.t = t
			s.replay()
		}
	})
}

// A script is a story that is being played.
type script struct {
	*player
	seen int // events shown so far
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "define" {
		return s.define(t, d.Input)
	}
	if s.player == nil {
		t.Fatalf("%s: there is no definition", d.Pos)
	}
	s.t = t
	reader := s.reader(t)
	if d.Cmd == "alarm-fired" {
		plan, err := s.send(state.AlarmFired{At: s.now.UnixMilli()})
		return answer(plan, err, d.HasArg("notes"))
	}
	if m := reader.Message(d); m != nil {
		plan, err := s.send(m)
		return answer(plan, err, d.HasArg("notes"))
	}
	switch d.Cmd {
	case "advance":
		return s.advance(s.now.Add(reader.Duration(d)), d.HasArg("notes"))
	case "sleep":
		s.now = s.now.Add(reader.Duration(d))
		return ""
	case "wake":
		plan, err := s.send(state.AlarmFired{At: s.state.Alarm().UnixMilli()})
		return answer(plan, err, d.HasArg("notes"))
	}
	return s.show(d)
}

func (s *script) define(t *testing.T, yaml string) string {
	d, err := workflow.ParseYAML([]byte(yaml))
	if err != nil {
		return err.Error() + "\n"
	}
	g, err := compiled.Compile(workflow.Bounds{}, d)
	if err != nil {
		return err.Error() + "\n"
	}
	s.player, s.seen = newPlayer(t, g), 0
	return ""
}

// reader makes messages of commands. A token that runs no attempt has the first
// one's key.
func (s *script) reader(t *testing.T) story.Reader {
	return story.Reader{T: t, Now: func() time.Time { return s.now }, Key: func(id workflow.TokenID) (int, state.Epoch) {
		if t := s.state.Token(id); t != nil && t.Attempt > 0 {
			return t.Attempt, epoch0
		}
		return 1, epoch0
	}}
}

// advance lets time go on until t: every alarm fires at its instant.
func (s *script) advance(until time.Time, notes bool) string {
	var b strings.Builder
	for {
		plan, fired := s.fire(until)
		if !fired {
			break
		}
		fmt.Fprintf(&b, "%s\n%s", s.now.Format("15:04:05.000"), answer(plan, nil, notes))
	}
	if s.now.Before(until) {
		s.now = until
	}
	if b.Len() == 0 {
		return "(nothing is due)\n"
	}
	return b.String()
}

func answer(p decision.Plan, err error, notes bool) string {
	if !notes {
		p.Trace = nil
	}
	switch out := text(p); {
	case err != nil:
		return fmt.Sprintf("refused: %v\n", err)
	case out == "":
		return "(nothing changes)\n"
	default:
		return out
	}
}

// show prints a part of the state.
func (s *script) show(d *datadriven.TestData) string {
	var b strings.Builder
	switch d.Cmd {
	case "tokens":
		s.tokens(&b)
	case "groups":
		s.groups(&b)
	case "data":
		for _, x := range s.state.AllData() {
			if m, ok := x.Value.(map[string]any); ok && len(m) == 0 && len(x.Path) == 1 {
				continue // a section as it begins
			}
			path := value.Path{Segments: x.Path, Append: x.Kind == state.DataAppend}
			fmt.Fprintf(&b, "%v %v = %s\n", x.Scope, path, value.Encode(x.Value))
		}
	case "events":
		for _, e := range s.events[s.seen:] {
			fmt.Fprintln(&b, event(e))
		}
		s.seen = len(s.events)
	case "alarm":
		if at := s.state.Alarm(); !at.IsZero() {
			fmt.Fprintln(&b, at.Format("15:04:05.000"))
		}
	case "pending":
		for _, e := range planning.Pending(s.state) {
			fmt.Fprintln(&b, e)
		}
	case "outcome":
		o := decision.Outcome(s.state)
		fmt.Fprint(&b, o.Status)
		if o.Output != nil {
			fmt.Fprintf(&b, " output=%s", value.Encode(o.Output))
		}
		if o.Failure != nil {
			fmt.Fprintf(&b, " failure=%v", o.Failure)
		}
		b.WriteString("\n")
	default:
		s.t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	if b.Len() == 0 {
		return "(none)\n"
	}
	return b.String()
}

func (s *script) tokens(b *strings.Builder) {
	for id := workflow.TokenID(1); id < s.state.NextToken; id++ {
		t := s.state.Token(id)
		fmt.Fprintf(b, "%v %s %v in=%v", t.ID, t.Node, t.Status, t.Scope)
		if t.Parent != 0 {
			fmt.Fprintf(b, " parent=%v", t.Parent)
		}
		if t.Attempt != 0 {
			fmt.Fprintf(b, " attempt=%d", t.Attempt)
		}
		if len(t.Counts) > 0 {
			counts, _ := json.Marshal(t.Counts)
			fmt.Fprintf(b, " counts=%s", counts)
		}
		b.WriteString("\n")
	}
}

func (s *script) groups(b *strings.Builder) {
	for id := workflow.GroupID(1); id < s.state.NextGroup; id++ {
		g := s.state.Group(id)
		fmt.Fprintf(b, "%v %q %v in=%v origin=%v: %d branches, %d begun, %d arrived, %d ended, %d failed, %d tokens live\n",
			g.ID, g.Name, g.Phase, g.Scope, g.Origin, g.Total, g.Started, g.Arrived, g.Ended, g.Failed, g.Live)
	}
}

func event(e decision.Event) string {
	out := fmt.Sprintf("%d %s", e.Seq, e.Type)
	if e.Token != 0 {
		out += fmt.Sprintf(" %v", e.Token)
	}
	if e.Node != "" {
		out += " " + string(e.Node)
	}
	if e.Group != 0 {
		out += fmt.Sprintf(" %v", e.Group)
	}
	if len(e.Data) > 0 {
		out += " " + string(value.Encode(e.Data))
	}
	return out
}
