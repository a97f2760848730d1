package pawltest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Failure is one expectation that does not hold.
type Failure struct {
	What     string `json:"what"` // the expectation, as a path: expect.nodes.quote
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// String returns the failure in one line.
func (f Failure) String() string {
	return fmt.Sprintf("%s: expected %s, got %s", f.What, f.Expected, f.Got)
}

// A checker compares what has happened with what was expected.
type checker struct {
	*history
	expect   *expectation
	scenario *Scenario
	failures []Failure
}

func (c *checker) addFailure(what, expected, got string, args ...any) {
	c.failures = append(c.failures, Failure{"expect." + what, expected, fmt.Sprintf(got, args...)})
}

// checkExpectations returns the expectations of a scenario that do not hold after it was
// played.
func (d *driver) checkExpectations(h *history) ([]Failure, error) {
	c := &checker{history: h, expect: &d.scenario.document.Expect, scenario: d.scenario}
	d.checkActions(c)
	if d.scenario.document.Schedule == nil {
		d.checkRun(c)
	}
	c.checkCounts()
	c.checkOrder()
	c.checkChildren()
	c.checkForks()
	c.failures = append(c.failures, d.looks...)
	return c.failures, d.checkSchedules(c)
}

// checkRun compares how the scenario's own run has ended.
func (d *driver) checkRun(c *checker) {
	status, failure, end := d.runOutcome(c.history)
	c.checkStatus(status, failure)
	c.checkData(failure)
	c.checkMeta()
	if want := c.expect.Duration; want != nil && *want != end {
		c.addFailure("duration", want.String(), "%v", end)
	}
}

// runOutcome returns how the scenario's run has ended, or stands, with its failure
// as a value, and how long it took.
func (d *driver) runOutcome(h *history) (status string, failure map[string]any, took time.Duration) {
	if start := d.actions[0]; len(h.runs) == 0 {
		return "refused", refusedStart(start.err), 0
	}
	root := h.runs[0]
	failure = failureFields(root.Failure)
	end := root.EndedAt
	if end.IsZero() {
		end = root.records[len(root.records)-1].At
	}
	return root.Status.String(), failure, end.Sub(root.StartedAt)
}

// failureFields returns a failure as a value, nil without one.
func failureFields(f *workflow.Failure) map[string]any {
	if f == nil {
		return nil
	}
	out := map[string]any{"code": f.Code, "message": f.Message, "node": string(f.Node), "attempts": int64(f.Attempts)}
	if f.By != "" {
		out["by"] = f.By
	}
	if f.Cause != nil {
		out["cause"] = failureFields(f.Cause)
	}
	return out
}

// refusedStart returns the error of a start that was refused as a failure.
func refusedStart(err error) map[string]any {
	if err == nil {
		return nil
	}
	code := "error"
	var input *workflow.InputError
	var limit *workflow.LimitError
	var definition *workflow.DefinitionError
	switch {
	case errors.As(err, &definition), errors.Is(err, pawl.ErrNotPublished), errors.Is(err, pawl.ErrPublished):
		code = "invalid_definition"
	case errors.As(err, &input), errors.As(err, &limit):
		code = "invalid_input"
	}
	return map[string]any{"code": code, "message": err.Error()}
}

// checkActions compares which events were refused.
func (d *driver) checkActions(c *checker) {
	for _, a := range d.actions {
		if a.event < 0 {
			continue
		}
		expected := slices.Contains(c.expect.Rejected, a.event)
		switch {
		case !a.done:
			c.addFailure("rejected", fmt.Sprintf("an answer to event %d", a.event), "none")
		case expected && a.err == nil:
			c.addFailure("rejected", fmt.Sprintf("event %d to be refused", a.event), "it was accepted")
		case !expected && a.err != nil:
			c.addFailure("rejected", fmt.Sprintf("event %d to be accepted", a.event), "%v", a.err)
		}
	}
}

func (c *checker) checkStatus(status string, failure map[string]any) {
	want := c.expect.Status
	if want == "" {
		want = "completed"
	}
	switch {
	case status == want:
	case failure == nil:
		c.addFailure("status", want, "%s", status)
	default:
		c.addFailure("status", want, "%s (%v: %v)", status, failure["code"], failure["message"])
	}
}

func (c *checker) checkData(failure map[string]any) {
	var output, state map[string]any
	if len(c.runs) > 0 {
		output, state = c.runs[0].Output, c.runs[0].State
	}
	if want := c.expect.Output; want.set && !value.Equal(want.value, plainValue(output)) {
		c.compareValues("output", want.value, plainValue(output), false)
	}
	if want := c.expect.Artifacts; want != nil {
		c.checkArtifacts(*want)
	}
	if want := c.expect.State; want.set {
		c.compareValues("state", want.value, plainValue(state), true)
	}
	if want := c.expect.Error; want.set {
		c.compareValues("error", want.value, plainValue(failure), true)
	}
}

// checkArtifacts compares the names of the artifacts of the scenario's run, in the
// order of staging.
func (c *checker) checkArtifacts(want []string) {
	got := []string{}
	if len(c.runs) > 0 {
		for _, a := range c.runs[0].Artifacts {
			got = append(got, a.Name)
		}
	}
	if !slices.Equal(want, got) {
		c.addFailure("artifacts", fmt.Sprint(want), "%v", got)
	}
}

func plainValue(m map[string]any) any {
	if m == nil {
		return nil
	}
	return m
}

// compareValues reports where two values differ. In objects, only the fields that are
// expected count if the others may be there.
func (c *checker) compareValues(at string, want, got any, more bool) {
	w, ok1 := want.(map[string]any)
	g, ok2 := got.(map[string]any)
	if !ok1 || !ok2 {
		if !value.Equal(want, got) {
			c.addFailure(at, string(value.Encode(want)), "%s", value.Encode(got))
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(w)) {
		have, ok := g[key]
		if !ok {
			c.addFailure(at+"."+key, string(value.Encode(w[key])), "nothing")
			continue
		}
		c.compareValues(at+"."+key, w[key], have, more)
	}
	for _, key := range slices.Sorted(maps.Keys(g)) {
		if _, ok := w[key]; !ok && !more {
			c.addFailure(at+"."+key, "nothing", "%s", value.Encode(g[key]))
		}
	}
}

func (c *checker) checkCounts() {
	for _, node := range slices.Sorted(maps.Keys(c.expect.Nodes)) {
		want, got := c.expect.Nodes[node], c.countSteps(node, completed)
		if want != got {
			c.addFailure("nodes."+node, countText(want, "completion"), "%d", got)
		}
	}
	for _, typ := range slices.Sorted(maps.Keys(c.expect.Events)) {
		if want, got := c.expect.Events[typ], c.events[typ]; want != got {
			c.addFailure("events."+typ, countText(want, "event"), "%d", got)
		}
	}
}

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (c *checker) checkOrder() {
	if want := c.expect.Path; want != nil && !slices.Equal(*want, c.completionPath()) {
		c.addFailure("path", fmt.Sprint(*want), "%v", c.completionPath())
	}
	for _, pair := range c.expect.Before {
		a, b := pair[0], pair[1]
		ended, begun := slices.Index(c.steps, step{a, completed}), c.firstStart(b, c.scenario.isTask(b))
		want := fmt.Sprintf("%s to complete before %s starts", a, b)
		switch {
		case ended < 0:
			c.addFailure("before", want, "%s never completed", a)
		case begun < 0:
			c.addFailure("before", want, "%s never started", b)
		case ended > begun:
			c.addFailure("before", want, "%s started first", b)
		}
	}
	for _, node := range c.expect.Never {
		if c.firstStart(node, c.scenario.isTask(node)) >= 0 {
			c.addFailure("never", node+" never to start", "it did")
		}
	}
}

// isTask reports whether a node is a task in one of the scenario's definitions.
func (s *Scenario) isTask(node string) bool {
	for _, src := range append(slices.Clone(s.definitions), s.definition) {
		if src.definition == nil {
			continue
		}
		for i := range src.definition.Nodes {
			if n := &src.definition.Nodes[i]; string(n.ID) == node && n.Kind() == workflow.KindTask {
				return true
			}
		}
	}
	return false
}

// checkMeta compares the sums of what the run and all below it have reported.
func (c *checker) checkMeta() {
	expected, _ := c.expect.Meta.value.(map[string]any)
	for _, want := range amount.Of(expected) {
		got := amount.Sum{}
		if len(c.runs) > 0 {
			got, _ = c.runs[0].meta.Named(want.Name)
		}
		if got.Compare(want) != 0 {
			c.addFailure("meta."+want.Name, want.String(), "%v", got)
		}
	}
}

func (c *checker) checkChildren() {
	got := c.childStatuses()
	for _, name := range slices.Sorted(maps.Keys(c.expect.Children)) {
		if want := c.expect.Children[name]; !slices.Equal(want, got[name]) {
			c.addFailure("children."+name, "["+strings.Join(want, " ")+"]", "%v", got[name])
		}
	}
}
