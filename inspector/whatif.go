package inspector

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// The bounds of what is tried on a copy of a run.
// Each simulation copies the run into memory, and plays it as far as its lines lead.
const (
	maxSimulationLines = 20
	shownSimulation    = 50 // records
)

// A simulationKind is something that a line of a simulation lets happen.
type simulationKind struct{ name, text string }

// simulationKinds are all of them. Kinds that are acts have the names of acts.
//
// The texts are options of the form, each a sentence with the field On in the place of the dots.
var simulationKinds = []simulationKind{
	{"signal", "the signal … comes, with the value"}, {"approve", "somebody approves at …"}, {"reject", "somebody rejects at …"},
	{"elapse", "time passes: …"}, {"returns", "tasks at … return the value"}, {"fails", "tasks at … fail with the code"},
	{"retry", "somebody retries at …"}, {"skip", "somebody skips at …, with the output"},
	{"pause", "somebody pauses the run"}, {"resume", "somebody resumes the run"}, {"cancel", "somebody cancels the run"},
}

// A simulationLine is a line of the form: what happens, to what, and with which value.
//
// On is a node, the number of a token, the name of a signal or a duration, by what the line does. value is Value as JSON, set by checkLine.
type simulationLine struct {
	Number        int // from 1
	Do, On, Value string
	Kinds         []choiceRow
	value         any
}

// A whatIfData is what would become of a run.
//
// Lines are those that were tried and an empty one, so that the form grows. Effect is nil until something was tried.
type whatIfData struct {
	Hidden string // id of the run, where no path can name it
	Lines  []simulationLine
	Wrong  string
	Effect *effect
	Later  string      // how much time passes
	Steps  []recordRow // what would be decided
	More   int         // records that are not shown
	State  *shownValue // of the run then
	Output *shownValue
}

// viewWhatIf shows what would come of acts, elapsed time and results of tasks: a copy of the run decides it. Nothing is changed.
//
// The whole simulation is in the address: it can be loaded again, sent to somebody else, and is a GET, as it changes nothing.
func (v *viewer) viewWhatIf() (any, error) {
	if v.rights&api.Values == 0 { // which conditions would tell, one simulation after the other
		return nil, errForbidden
	}
	data := &whatIfData{Hidden: hiddenID(v.id)}
	lines, err := readSimulation(v.r.URL.Query())
	if err == nil && len(lines) > 0 {
		err = v.playSimulation(data, lines)
	}
	if busy, _ := busyStatus(err); busy != 0 {
		return nil, err
	}
	if err != nil {
		data.Wrong = strings.TrimPrefix(v.errorAt(err), errAct.Error()+": ")
		v.status = http.StatusBadRequest
	}
	// An empty line at the end is for what the reader may want to add.
	if data.Lines = lines; len(lines) < maxSimulationLines {
		data.Lines = append(data.Lines, simulationLine{Number: len(lines) + 1})
	}
	for i := range data.Lines {
		l := &data.Lines[i]
		for _, kind := range simulationKinds {
			l.Kinds = append(l.Kinds, choiceRow{Value: kind.name, Text: kind.text, Chosen: kind.name == l.Do})
		}
	}
	return data, nil
}

// readSimulation reads the lines of a simulation, but for those that are empty. Its error names the line that is wrong; the lines are there all the
// same.
//
// A form sends three parameters for each line, do, on and value; those at the same place belong together. Lines are numbered without the
// empty ones, as the page will show them.
func readSimulation(q url.Values) (lines []simulationLine, wrong error) {
	at := func(name string, i int) string {
		if i >= len(q[name]) {
			return ""
		}
		return strings.TrimSpace(q[name][i])
	}
	for i := range max(len(q["do"]), len(q["on"]), len(q["value"])) {
		l := simulationLine{Number: len(lines) + 1, Do: at("do", i), On: at("on", i), Value: at("value", i)}
		if l.Do == "" && l.On == "" && l.Value == "" {
			continue
		}
		if len(lines) == maxSimulationLines {
			return lines, fmt.Errorf("%w: at most %d lines", errAct, maxSimulationLines)
		}
		if err := l.checkLine(); err != nil && wrong == nil {
			wrong = fmt.Errorf("%w: line %d: %w", errAct, l.Number, err)
		}
		lines = append(lines, l)
	}
	return lines, wrong
}

// checkLine says what is wrong with a line. It reads the value.
//
// It sees only the line itself: playSimulation finds out whether the run has such a node, and the engine whether it takes the act.
func (l *simulationLine) checkLine() error {
	if !slices.ContainsFunc(simulationKinds, func(k simulationKind) bool { return k.name == l.Do }) {
		return fmt.Errorf("choose what happens")
	}
	switch ofRun := slices.Contains([]string{"pause", "resume", "cancel"}, l.Do); {
	case ofRun && l.On+l.Value != "":
		return fmt.Errorf("%s is about the run: leave the other fields empty", l.Do)
	// All others are about something in the run, or about a length of time.
	case !ofRun && l.On == "":
		return fmt.Errorf("say of what: a node, a thread, the name of a signal, a time such as 2h")
	}
	switch l.Do {
	case "elapse":
		if d, err := time.ParseDuration(l.On); err != nil || d < 0 {
			return fmt.Errorf("%q is not a time that passes, such as 90s or 2h", l.On)
		}
	case "fails":
		if l.Value == "" {
			return fmt.Errorf("say with which code the tasks fail")
		}
		return nil
	case "signal", "returns", "skip":
		if l.Value == "" {
			return nil
		}
		d := json.NewDecoder(strings.NewReader(l.Value))
		d.UseNumber()
		if !json.Valid([]byte(l.Value)) || d.Decode(&l.value) != nil {
			return fmt.Errorf("the value is not JSON: texts stand in quotation marks")
		}
		return nil
	}
	if l.Value != "" {
		return fmt.Errorf("%s takes no value", l.Do)
	}
	return nil
}

// simulationResults performs tasks by the lines that give results for their nodes.
//
// If two lines are for one node, the last one counts, from the beginning on: results are no events in the order of lines.
type simulationResults map[workflow.NodeID]simulationLine

// Execute implements pawl.Executor.
//
// A task for whose node no line gives a result stays under way, as ErrPending says.
func (r simulationResults) Execute(_ context.Context, t pawl.Task) (any, error) {
	l, ok := r[t.Node]
	switch {
	case !ok:
		return nil, pawl.ErrPending
	case l.Do == "fails":
		return nil, pawl.TaskError{Code: l.Value}
	}
	return l.value, nil
}

// playSimulation lets the lines happen to a copy of the run, one after the other, and tells what comes of them. After a line that
// would be refused it ends.
//
// The decisions until then are shown as well. playSimulation returns an error only for a simulation that could not be made at all.
func (v *viewer) playSimulation(data *whatIfData, lines []simulationLine) error {
	sim, err := v.simulate(v.ctx, v.id)
	if err != nil {
		return err
	}
	results := simulationResults{}
	d, _, err := sim.Definition()
	if err != nil {
		return err
	}
	for _, l := range lines {
		if l.Do != "returns" && l.Do != "fails" {
			continue
		}
		// A result for a node that is misspelt would never be used, and nobody would be told.
		if !slices.ContainsFunc(d.Nodes, func(n workflow.Node) bool { return string(n.ID) == l.On }) {
			return fmt.Errorf("%w: line %d: the run has no node %q", errAct, l.Number, l.On)
		}
		results[workflow.NodeID(l.On)] = l
	}
	e := &effect{Run: v.id, Href: v.link(), Before: v.ov.Status}
	begin := sim.Now()
	// Tasks that are under way have their results first, before any line happens.
	err = sim.Play(v.ctx, results)
	for i := 0; err == nil && i < len(lines); i++ {
		if err = v.tryLine(sim, &lines[i]); err == nil {
			err = sim.Play(v.ctx, results)
		}
		if err != nil {
			err = fmt.Errorf("line %d: %w", lines[i].Number, err)
		}
	}
	// The reader has gone, and nothing was refused.
	if v.ctx.Err() != nil {
		return context.Cause(v.ctx)
	}
	if err != nil {
		data.Wrong = "It would be refused: " + v.errorAt(err) + "."
	}
	v.addSteps(e, sim)
	data.Effect, data.Later = e, spanText(sim.Now().Sub(begin))
	return v.addFuture(data, sim)
}

// tryLine lets one line happen.
//
// Acts are those that performAct does.
func (v *viewer) tryLine(sim *pawl.Simulation, l *simulationLine) error {
	switch l.Do {
	case "returns", "fails": // of whatever tasks there are
		return nil
	case "elapse":
		d, err := time.ParseDuration(l.On)
		if err != nil {
			return err
		}
		return sim.Do(v.ctx, pawl.Elapse{Elapse: d})
	}
	f := &actForm{act: actOf(l.Do), By: cmp.Or(v.who, "you"), Reason: "what if", Name: l.On, value: l.value}
	t := pawl.Target{Run: v.id}
	// A number is a token; anything else is a node, where the engine takes the one token that the act fits.
	if n, err := strconv.ParseInt(l.On, 10, 64); err == nil && n > 0 {
		t.Token = workflow.TokenID(n)
	} else {
		t.Node = workflow.NodeID(l.On)
	}
	return sim.Do(pawl.Because(pawl.As(v.ctx, f.By), f.Reason), acts.At(f.act.makeAct(f), t))
}

// addFuture shows what was decided in the copy, and the run as it would be.
//
// The first shownSimulation records are listed. Values are shown as those of the run itself.
func (v *viewer) addFuture(data *whatIfData, sim *pawl.Simulation) error {
	steps := sim.Steps()
	data.More = max(0, len(steps)-shownSimulation)
	for i := range steps[:len(steps)-data.More] {
		data.Steps = append(data.Steps, v.rowOfRecord(new(acts.RecordOf(&steps[i].Record))))
	}
	g, err := v.graphOf()
	if err != nil {
		return err
	}
	ov, then := sim.Overview(), sim.Snapshot()
	data.Effect.picture = v.drawGraph(g, v.diagramRun(&ov), func(id workflow.NodeID) string { return v.link("view", "tokens", "node", string(id)) })
	data.Effect.Moves = false // the form that moves it has not what was tried
	data.State = v.valueAt(v.id, "state", then.State, largeValue)
	if then.Output != nil {
		data.Output = v.valueAt(v.id, "output", then.Output, largeValue)
	}
	return nil
}
