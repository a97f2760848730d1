package pawltest

import (
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/workflow"
)

// A Scenario is one document of a scenario file, ready to be played any number
// of times.
type Scenario struct {
	Name string
	File string
	Line int // of the document in the file, from 1

	definition  source
	definitions []source
	document    scenarioFields
}

// A source is a definition, or what is wrong with it.
type source struct {
	definition *workflow.Definition
	problem    error
}

// scenarioFields are a scenario as it is written.
type scenarioFields struct {
	Scenario    string              `yaml:"scenario"`
	Definition  *document.Element   `yaml:"definition"`
	File        string              `yaml:"file"`
	Definitions []*document.Element `yaml:"definitions"`
	Input       optional            `yaml:"input"`
	Schedule    *scheduling         `yaml:"schedule"`
	MetaLimits  optional            `yaml:"metaLimits"`
	Mocks       map[string]mocks    `yaml:"mocks"`
	Events      []event             `yaml:"events"`
	Expect      expectation         `yaml:"expect"`
}

// mocks are what the tasks of one node come to.
type mocks struct {
	calls   []mock            // the k-th call takes the k-th; the last one repeats
	byIndex map[string][]mock // or likewise, by the index of the innermost branch
}

// A mock is what one call of a task comes to.
type mock struct {
	Output     optional          `yaml:"output"`
	Error      *mockError        `yaml:"error"`
	Delay      time.Duration     `yaml:"delay"`
	Heartbeats time.Duration     `yaml:"heartbeats"`
	Details    optional          `yaml:"details"`
	Snooze     time.Duration     `yaml:"snooze"`
	Expr       *mockProgram      `yaml:"expr"`
	Artifacts  map[string]string `yaml:"artifacts"` // contents, by name
	Metadata   optional          `yaml:"metadata"`
}

type mockError struct {
	Code       string        `yaml:"code"`
	Message    string        `yaml:"message"`
	Retryable  *bool         `yaml:"retryable"`
	RetryAfter time.Duration `yaml:"retryAfter"`
}

func (m *mocks) readElement(e *document.Element) error {
	if e.Kind == document.List {
		return decodeElement(e, &m.calls)
	}
	if e.Kind != document.Object || e.Member("byIndex") == nil {
		return errorAt(e, "a mock is a list of calls, such as [{output: {}}], or {byIndex: {...}} with such lists")
	}
	var by struct {
		Index map[string][]mock `yaml:"byIndex"`
	}
	if err := decodeElement(e, &by); err != nil {
		return err
	}
	m.byIndex = by.Index
	for key := range by.Index {
		if i, err := strconv.Atoi(key); key != otherIndices && (err != nil || i < 0 || strconv.Itoa(i) != key) {
			return errorAt(e, "byIndex: %q is neither the index of a branch nor %q, for all others", key, otherIndices)
		}
	}
	return nil
}

// A mockProgram computes the output of a mock.
type mockProgram struct{ *expr.Program }

// mockVariables may be used in the expr of a mock.
var mockVariables = []string{"input", "item", "index", "branch", "attempt", "details"}

func (p *mockProgram) readElement(e *document.Element) error {
	var text string
	if err := decodeElement(e, &text); err != nil {
		return err
	}
	program, err := expr.Compile(text, mockVariables, expr.Limits{})
	if err != nil {
		return errorAt(e, "%v", err)
	}
	p.Program = program
	return nil
}

// An event is something that happens to a run from outside.
type event struct {
	line, column int

	At    *time.Duration `yaml:"at"`
	Index *int           `yaml:"index"` // chooses among tokens at a node
	Run   string         `yaml:"run"`   // a child run, by its node

	By     *string `yaml:"by"`     // who asks for it
	Reason string  `yaml:"reason"` // and why

	Signal      *signalEvent  `yaml:"signal"`
	Vote        *voteEvent    `yaml:"vote"`
	Crash       bool          `yaml:"crash"`
	Downtime    time.Duration `yaml:"downtime"` // with crash: until the engine is back
	Result      *resultEvent  `yaml:"result"`
	Cancel      bool          `yaml:"cancel"`
	Pause       bool          `yaml:"pause"`
	Resume      bool          `yaml:"resume"`
	Patch       optional      `yaml:"patch"`
	AddBranch   *groupEvent   `yaml:"addBranch"`
	CloseGroup  *groupEvent   `yaml:"closeGroup"`
	CancelNodes []string      `yaml:"cancelNodes"`
	Raise       optional      `yaml:"raise"`
	Retry       *retryEvent   `yaml:"retry"`
	Skip        *skipEvent    `yaml:"skip"`

	Schedule *scheduleEvent `yaml:"schedule"`

	Fork     *forkEvent     `yaml:"fork"`
	Simulate *simulateEvent `yaml:"simulate"`
	Replay   *replayEvent   `yaml:"replay"`
}

type signalEvent struct {
	Name    string         `yaml:"name"`
	Payload optional       `yaml:"payload"`
	ID      string         `yaml:"id"`
	TTL     *time.Duration `yaml:"ttl"`
	Early   bool           `yaml:"early"`
	Run     string         `yaml:"run"`
}

type voteEvent struct {
	Node     string   `yaml:"node"`
	ID       string   `yaml:"id"`
	Token    int64    `yaml:"token"`
	Index    *int     `yaml:"index"`
	Run      string   `yaml:"run"`
	By       string   `yaml:"by"`
	Approved bool     `yaml:"approved"`
	Comment  string   `yaml:"comment"`
	Data     optional `yaml:"data"`
}

type resultEvent struct {
	Node    string     `yaml:"node"`
	Index   *int       `yaml:"index"`
	Run     string     `yaml:"run"`
	Attempt int        `yaml:"attempt"`
	Output  optional   `yaml:"output"`
	Error   *mockError `yaml:"error"`

	Metadata optional `yaml:"metadata"`
}

type groupEvent struct {
	Group  string   `yaml:"group"`
	Origin int64    `yaml:"origin"`
	Index  *int     `yaml:"index"`
	ID     string   `yaml:"id"`
	Run    string   `yaml:"run"`
	Item   optional `yaml:"item"`
}

type retryEvent struct {
	Node  string `yaml:"node"`
	Index *int   `yaml:"index"`
	Run   string `yaml:"run"`
	Input string `yaml:"input"`
}

type skipEvent struct {
	Node   string   `yaml:"node"`
	Index  *int     `yaml:"index"`
	Run    string   `yaml:"run"`
	Output optional `yaml:"output"`
}

// An expectation is what must come out of a scenario.
type expectation struct {
	Status    string              `yaml:"status"`
	Output    optional            `yaml:"output"`
	State     optional            `yaml:"state"`
	Error     optional            `yaml:"error"`
	Nodes     map[string]int      `yaml:"nodes"`
	Path      *[]string           `yaml:"path"`
	Before    [][]string          `yaml:"before"`
	Never     []string            `yaml:"never"`
	Children  map[string][]string `yaml:"children"`
	Events    map[string]int      `yaml:"events"`
	Rejected  []int               `yaml:"rejected"`
	Artifacts *[]string           `yaml:"artifacts"`
	Duration  *time.Duration      `yaml:"duration"`
	Meta      optional            `yaml:"meta"`
	Forks     map[string]standing `yaml:"forks"`

	Schedules map[string]scheduleStanding `yaml:"schedules"`
}

func (e *event) readElement(from *document.Element) error {
	type plain event // without this method
	if err := decodeElement(from, (*plain)(e)); err != nil {
		return err
	}
	e.line, e.column = from.Line, from.Column
	if e.At == nil {
		return errorAt(from, "an event needs at")
	}
	switch what := len(e.kinds()); {
	case what != 1:
		return errorAt(from, "an event is exactly one thing, not %d", what)
	case e.Downtime > 0 && !e.Crash:
		return errorAt(from, "downtime goes with crash")
	case e.Crash && (e.By != nil || e.Reason != ""):
		return errorAt(from, "nobody asks for a crash: by and reason go with other events")
	}
	return nil
}

// elementAt returns the place of an event, for its errors.
func (e *event) elementAt() *document.Element {
	return &document.Element{Line: e.line, Column: e.column}
}

// kinds returns the names of the fields by which an event is something: those that are neither beside what happens nor empty.
func (e *event) kinds() (names []string) {
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag := f.Tag.Get("yaml")
		if tag != "" && !slices.Contains([]string{"at", "index", "run", "by", "reason", "downtime"}, tag) && !v.Field(i).IsZero() {
			names = append(names, f.Name)
		}
	}
	return names
}
