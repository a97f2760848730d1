package pawltest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// runName returns the name of the run that an event is about, which stands inside the
// event or beside it: "" for the scenario's own.
func (e *event) runName() string {
	inner := ""
	for _, kind := range e.kinds() {
		what := reflect.Indirect(reflect.ValueOf(e).Elem().FieldByName(kind))
		if what.Kind() != reflect.Struct {
			continue
		}
		if run := what.FieldByName("Run"); run.IsValid() {
			inner = run.String()
		}
	}
	return strings.Trim(cmp.Or(inner, e.Run), "/")
}

// branchIndex returns the index that an event names: inside the event, or beside it.
func (e *event) branchIndex(inner *int) *int {
	if inner != nil {
		return inner
	}
	return e.Index
}

// resolveRun returns the run with a name: steps from the scenario's run down, or from a fork,
// which is named first, each of them NODE, NODE:INDEX or TOKEN.ATTEMPT.
func (d *driver) resolveRun(engine *pawl.Engine, name string) (workflow.RunID, error) {
	run := rootRun
	if name == "" {
		return run, nil
	}
	first, rest, _ := strings.Cut(name, "/")
	if d.scenario.document.Schedule != nil {
		var err error
		if run, err = scheduledRun(first, nil); err != nil || rest == "" {
			return run, err
		}
		name = rest
	}
	if d.scenario.isFork(workflow.RunID(first)) {
		if run, name = workflow.RunID(first), rest; name == "" {
			return run, nil
		}
	}
	for step := range strings.SplitSeq(name, "/") {
		child, err := childOf(d.ctx, engine, run, step)
		if err != nil {
			return "", err
		}
		run = child
	}
	return run, nil
}

// tokenAndAttempt is the end of a child run's id.
var tokenAndAttempt = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// childOf returns the child run that a node has started: that of its live token, or
// else that of its latest, in the branch with the index if one is given.
func childOf(ctx context.Context, engine *pawl.Engine, parent workflow.RunID, step string) (workflow.RunID, error) {
	if tokenAndAttempt.MatchString(step) {
		return parent + "/" + workflow.RunID(step), nil
	}
	snap, err := engine.Inspect(ctx, parent)
	if err != nil {
		return "", err
	}
	node, branch := splitIndex(step)
	var of *pawl.Token
	for i := range snap.Tokens {
		t := &snap.Tokens[i]
		here := string(t.Node) == step || string(t.Node) == node && t.Scope.Group != 0 && t.Scope.Branch == branch
		if here && t.Attempt > 0 && (of == nil || t.Live() || !of.Live()) {
			of = t
		}
	}
	if of == nil {
		return "", fmt.Errorf("%w: node %q of run %q has started none", pawl.ErrRunNotFound, step, string(parent))
	}
	return state.ChildID(parent, of.ID, of.Attempt), nil
}

// splitIndex splits NODE:INDEX; without an index that is -1.
func splitIndex(step string) (node string, index int) {
	at := strings.LastIndexByte(step, ':')
	if at < 0 {
		return step, -1
	}
	index, err := strconv.Atoi(step[at+1:])
	if err != nil {
		return step, -1
	}
	return step[:at], index
}
