package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// Check returns all problems of a set of schedules, in the order of the schedules and of the text that was parsed: those
// that [Schedule.Check] finds, and ids that are there twice. A Field begins with schedules[0].
//
// Unless now is zero, Check evaluates, as [Timetable.Input] does, the input of the next firing after now of each schedule without
// a fault, as if it were its first. A failure is a problem, but only a warning if last, which is null, or fire.count, 1, may cause it.
func Check(set []Schedule, now time.Time) []workflow.Problem {
	var out []workflow.Problem
	c := checker{zones: map[string]*time.Location{}, expressions: expr.NewCompiler(inputLimits), now: now}
	first := map[string]int{}
	for i := range set {
		c.schedule, c.problems = &set[i], nil
		c.checkAll()
		if j, twice := first[set[i].ID]; twice && set[i].ID != "" {
			c.reportProblem("id", problem.DuplicateID, "schedules[%d] has the same id", j)
		} else {
			first[set[i].ID] = i
		}
		for _, p := range c.sortProblems() {
			p.Field = strings.TrimSuffix(fmt.Sprintf("schedules[%d].%s", i, p.Field), ".")
			out = append(out, p)
		}
	}
	return out
}

// Check returns all problems of one schedule, in the order of the text that it was parsed from. Field is the path of a
// field in it, such as cron[1]. It does not check that the workflow exists.
func (s *Schedule) Check() []workflow.Problem {
	c := checker{schedule: s, zones: map[string]*time.Location{}, expressions: expr.NewCompiler(inputLimits)}
	if s == nil {
		c.schedule = &Schedule{}
	}
	c.checkAll()
	return c.sortProblems()
}

// A checker looks for the problems of a schedule. Its functions report and go on.
type checker struct {
	schedule    *Schedule
	zones       map[string]*time.Location
	expressions *expr.Compiler
	now         time.Time // zero: no input is evaluated
	compiles    bool      // zones of one machine pass: a schedule that is stored may have one
	problems    []workflow.Problem
}

func (c *checker) reportProblem(field, code, format string, args ...any) {
	at := c.schedule.places.Find(field)
	c.problems = append(c.problems, workflow.Problem{
		Code: code, Message: fmt.Sprintf(format, args...), Field: field, Line: at.Line, Column: at.Column,
	})
}

func (c *checker) reportWarning(field, code, text string) {
	c.reportProblem(field, code, "%s", text)
	c.problems[len(c.problems)-1].Warning = true
}

// sortProblems returns the problems in the order of the text.
func (c *checker) sortProblems() []workflow.Problem {
	slices.SortStableFunc(c.problems, func(a, b workflow.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return c.problems
}

func (c *checker) checkAll() {
	c.checkNames()
	t := c.checkTimes()
	if len(c.problems) == 0 {
		c.checkFires(t)
	}
	c.checkInput("input", c.schedule.Input, 0)
	if len(c.problems) == 0 && !c.now.IsZero() {
		c.checkFiring(t)
	}
	c.checkAt()
}

// checkNames checks what is no time.
func (c *checker) checkNames() {
	s := c.schedule
	c.checkName("id", s.ID)
	if strings.ContainsAny(s.ID, "/@") {
		c.reportProblem("id", problem.InvalidName, "%q has / or @, which the ids of runs have for themselves", s.ID)
	}
	if len(s.ID) > maxID {
		c.reportProblem("id", problem.InvalidName, "%d bytes are more than %d", len(s.ID), maxID)
	}
	c.checkName("workflow.name", s.Workflow.Name)
	c.checkRange("workflow.version", s.Workflow.Version, 1<<31-1)
	c.checkRange("pauseAfterFailures", s.PauseAfterFailures, 1<<31-1)
	if len(s.Tenant) > limits.MaxTenant {
		c.reportProblem("tenant", problem.InvalidName, "%d bytes are more than %d", len(s.Tenant), limits.MaxTenant)
	}
	checkValue(c, "overlap", s.Overlap, overlaps)
	checkValue(c, "dst.missing", s.DST.Missing, missings)
	checkValue(c, "dst.repeated", s.DST.Repeated, repeateds)
	c.checkLabels()
	c.checkMetaLimits()
}

func (c *checker) checkName(field, name string) {
	if name == "" {
		c.reportProblem(field, problem.Missing, "it is missing")
	} else if fault := limits.NameFault(name); fault != "" {
		c.reportProblem(field, problem.InvalidName, "%s", fault)
	}
}

func (c *checker) checkRange(field string, n, most int) {
	if n < 0 || n > most {
		c.reportProblem(field, problem.OutOfRange, "%d is not in 0..%d", n, most)
	}
}

func checkValue[T ~string](c *checker, field string, v T, values []T) {
	if v != "" && !slices.Contains(values, v) {
		c.reportProblem(field, problem.UnknownValue, "%q is not one of %s", string(v), joinValues(values))
	}
}

// checkMetaLimits holds limits to the bounds of those of a run.
func (c *checker) checkMetaLimits() {
	all := c.schedule.MetaLimits
	if len(all) > amount.MaxNames {
		c.reportProblem("metaLimits", problem.TooLarge, "%d names are more than %d", len(all), amount.MaxNames)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == "" || len(name) > amount.MaxName || !utf8.ValidString(name) {
			c.reportProblem("metaLimits."+name, problem.InvalidName, "a name has 1 to %d bytes of UTF-8", amount.MaxName)
		}
		if v := all[name]; !(v >= 0 && v <= value.MaxInteger) { // which NaN fails as well
			c.reportProblem("metaLimits."+name, problem.OutOfRange, "%v is not in 0..2^53", v)
		}
	}
}

// checkLabels holds the labels to the bounds of those of a run.
func (c *checker) checkLabels() {
	if n := len(c.schedule.Labels); n > limits.MaxLabels {
		c.reportProblem("labels", problem.TooLarge, "%d labels are more than %d", n, limits.MaxLabels)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(c.schedule.Labels)) {
		if text := c.schedule.Labels[key]; len(text) > limits.MaxLabelValue {
			c.reportProblem("labels."+key, problem.TooLarge, "%d bytes are more than %d", len(text), limits.MaxLabelValue)
		}
		if key == "" || len(key) > limits.MaxLabelKey {
			c.reportProblem("labels."+key, problem.InvalidName, "a key has 1 to %d bytes", limits.MaxLabelKey)
		}
	}
}

// checkTimes checks what the timetable is made of, and returns it. It is of no use if there is a problem.
func (c *checker) checkTimes() *Timetable {
	s := c.schedule
	t := &Timetable{schedule: s.Complete(), zone: c.zoneOf(s.Timezone)}
	c.checkForm()
	t.crons = c.parseCrons("cron", s.Cron)
	t.except = c.parseCrons("except", s.Except)
	markFree(t.crons, t.except)
	c.checkDuration("every", s.Every, time.Second, maxWindow)
	c.checkDuration("offset", s.Offset, time.Second, max(s.Every-time.Second, time.Second))
	c.checkDuration("after", s.After, time.Second, maxWindow)
	c.checkDuration("catchUp.window", s.CatchUp.Window, minWindow, maxWindow)
	c.checkRange("catchUp.most", s.CatchUp.Most, maxCatchUp)
	if s.Jitter < 0 || s.Jitter > maxJitter || s.Jitter%time.Millisecond != 0 {
		c.reportProblem("jitter", problem.OutOfRange, "%s is not 1ms to %s in whole milliseconds", s.Jitter, timeout.Text(maxJitter))
	}
	if s.Every > 0 && s.Jitter > s.Every {
		c.reportProblem("jitter", problem.OutOfRange, "%s is more than every, %s", s.Jitter, s.Every)
	}
	for i, at := range s.At {
		c.checkInstant(fmt.Sprintf("at[%d]", i), at)
		t.at = append(t.at, at.Unix())
	}
	slices.Sort(t.at)
	t.at = slices.Compact(t.at)
	c.checkInstant("start", s.Start)
	c.checkInstant("end", s.End)
	if !s.End.IsZero() && !s.Start.Before(s.End) {
		c.reportProblem("end", problem.OutOfRange, "it is not after start")
	}
	return t
}

// zoneOf returns the zone of a name, UTC if there is none of this name.
func (c *checker) zoneOf(name string) *time.Location {
	if zone, ok := c.zones[name]; ok {
		return zone
	}
	zone, err := loadZone(name)
	if isOfMachine(name) && !c.compiles {
		err = fmt.Errorf("the zone %.60s is another on each machine, or is not there: name one of the IANA database, such as Europe/Berlin", name)
	}
	if err != nil {
		c.reportProblem("timezone", problem.InvalidValue, "%s", err)
		return time.UTC
	}
	c.zones[name] = zone
	return zone
}

// checkForm checks that exactly one field says when it fires, and that those beside it go with it.
func (c *checker) checkForm() {
	s := c.schedule
	var forms []string
	for _, form := range []struct {
		name string
		set  bool
	}{{"cron", len(s.Cron) > 0}, {"every", s.Every != 0}, {"after", s.After != 0}, {"at", len(s.At) > 0}} {
		if form.set {
			forms = append(forms, form.name)
		}
	}
	switch len(forms) {
	case 0:
		c.reportProblem("", problem.Missing, "name one of cron, every, after, at")
		return
	case 1:
	default:
		c.reportProblem(forms[1], problem.Conflict, "%s exclude each other", strings.Join(forms, " and "))
		return
	}
	form := forms[0]
	if s.Offset != 0 && form != "every" {
		c.reportProblem("offset", problem.InvalidField, "it goes with every, not with %s", form)
	}
	if len(s.Except) > 0 && form != "cron" && form != "every" {
		c.reportProblem("except", problem.InvalidField, "it goes with cron and every, not with %s", form)
	}
	if s.DST != (DST{}) && form != "cron" {
		c.reportProblem("dst", problem.InvalidField, "it goes with cron, not with %s, which does not follow a clock", form)
	}
	if len(s.At) > maxInstants {
		c.reportProblem("at", problem.TooLarge, "%d instants are more than %d", len(s.At), maxInstants)
	}
}

func (c *checker) parseCrons(field string, texts []string) (out []*cron) {
	if len(texts) > maxCrons {
		c.reportProblem(field, problem.TooLarge, "%d expressions are more than %d", len(texts), maxCrons)
		return nil
	}
	for i, text := range texts {
		parsed, err := parseCron(text)
		if err != nil {
			c.reportProblem(fmt.Sprintf("%s[%d]", field, i), problem.InvalidValue, "%q: %s", value.Shorten(text, 60), err)
			continue
		}
		out = append(out, parsed)
	}
	return out
}

// checkDuration checks a duration that may be 0: whole seconds within bounds.
func (c *checker) checkDuration(field string, d, least, most time.Duration) {
	if d != 0 && (d < least || d > most || d%time.Second != 0) {
		c.reportProblem(field, problem.OutOfRange, "%s is not %s to %s in whole seconds", d, timeout.Text(least), timeout.Text(most))
	}
}

// checkInstant checks an instant: whole seconds of years that RFC 3339 can say.
func (c *checker) checkInstant(field string, t time.Time) {
	switch {
	case t.IsZero():
	case t.Nanosecond() != 0:
		c.reportProblem(field, problem.OutOfRange, "%s is not at a full second", formatInstant(t))
	case t.UTC().Year() < 1970 || t.UTC().Year() > 9999:
		c.reportProblem(field, problem.OutOfRange, "the year %d is not in 1970..9999", t.UTC().Year())
	}
}

// checkFires checks that the exceptions leave an instant: otherwise the schedule would wait for nothing.
func (c *checker) checkFires(t *Timetable) {
	s := c.schedule
	if s.After > 0 || s.Start.IsZero() && !s.End.IsZero() {
		return
	}
	from := s.Start
	if from.IsZero() {
		from = time.Unix(0, 0)
	}
	if _, ok := t.Next(from.Add(-time.Second)); ok {
		return
	}
	field := "end"
	if len(s.Except) > 0 {
		field = "except"
	} else if s.End.IsZero() {
		field = "start"
	}
	c.reportProblem(field, problem.InvalidValue, "nothing is left: it would never fire")
}

// checkAt warns of instants at which the schedule does not fire.
func (c *checker) checkAt() {
	s := c.schedule
	for i, at := range s.At {
		if field := fmt.Sprintf("at[%d]", i); at.Before(s.Start) {
			c.reportWarning(field, problem.OutOfRange, "it is before start, so it never fires")
		} else if !s.End.IsZero() && !at.Before(s.End) {
			c.reportWarning(field, problem.OutOfRange, "it is not before end, so it never fires")
		}
	}
}

// inputLimits bound the expressions of an input.
var inputLimits = expr.Limits{Source: limits.MaxExpression, Depth: value.DefaultDepth}

// checkInput checks an input or a part of it.
func (c *checker) checkInput(field string, v any, depth int) {
	if depth > maxInputDepth {
		c.reportProblem(field, problem.TooLarge, "more than %d levels", maxInputDepth)
		return
	}
	switch v := v.(type) {
	case nil, bool, int, int64, float64:
		if depth == 0 && v != nil {
			c.reportProblem(field, problem.WrongType, "an input is an object, or an expression that gives one")
		}
	case string:
		if _, err := c.expressions.Compile(v, inputVariables); err != nil {
			c.reportExpression(field, err)
		}
	case []any:
		if depth == 0 {
			c.reportProblem(field, problem.WrongType, "an input is an object, or an expression that gives one")
		}
		for i, item := range v {
			c.checkInput(fmt.Sprintf("%s[%d]", field, i), item, depth+1)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			c.checkInput(field+"."+key, v[key], depth+1)
		}
	default:
		c.reportProblem(field, problem.InvalidValue, "a value of type %T is none of JSON", v)
	}
}

// checkFiring evaluates the input of the next firing.
func (c *checker) checkFiring(t *Timetable) {
	next, ok := t.Next(c.now)
	if !ok {
		return
	}
	_, err := t.Input(next.At, 1, nil)
	var failed *inputError
	if !errors.As(err, &failed) {
		return
	}
	c.reportExpression(failed.field, failed.err)
	p, known := &c.problems[0], "for the firing of "+formatInstant(next.At)
	if _, err := c.expressions.Compile(failed.text, slices.DeleteFunc(slices.Clone(inputVariables), func(name string) bool { return name == "last" })); err != nil {
		p.Warning = true
		known += ", if last is null"
	} else if _, err := t.Input(next.At, 2, nil); err == nil {
		p.Warning = true
		known += ", if it is the first"
	}
	p.Message = known + ": " + p.Message
}

// reportExpression reports why an expression cannot be compiled, in the words in which a definition's problems are told.
func (c *checker) reportExpression(field string, err error) {
	var e *expr.Error
	switch {
	case !errors.As(err, &e) || e.Line == 0:
		c.reportProblem(field, problem.Expression, "%s", err)
	case e.Code == expr.CodeUnknownVariable:
		c.reportProblem(field, problem.UnknownVariable, "at %d:%d of the expression: %s", e.Line, e.Column, e.Message)
	default:
		c.reportProblem(field, problem.Expression, "at %d:%d of the expression: %s", e.Line, e.Column, e.Message)
	}
}
