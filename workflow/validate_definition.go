package workflow

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/schema"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
)

// checkDefinition checks what belongs to no node and no transition.
func (c *checker) checkDefinition() {
	d, s := c.def, c.atDefinition()
	c.checkIdentity(s)
	knownValue(c, s, "mode", d.Mode, modes)
	// In graph mode a failure that nothing catches fails its branch, or the run, in any case.
	if d.FailFast != nil && d.Mode != ModeDAG {
		c.reportProblem(s, "failFast", problem.InvalidField, "failFast is for mode: dag")
	}
	c.checkStart(s)
	c.checkDuration(s, "timeout", d.Timeout)
	c.checkBounds(s)
	c.checkAmounts(s, "limits.meta", d.Limits.Meta, false)
	c.checkNames(s, "signals", d.Signals)
	c.checkSchema(s, "input.schema", d.Input.Schema)
	c.checkSchema(s, "output.schema", d.Output.Schema)
	c.checkSchema(s, "state.schema", d.State.Schema)
	c.checkInitial(s)
	c.checkRunOutput(s)
}

// checkIdentity checks name and version, under which a definition is published, and its size.
func (c *checker) checkIdentity(s site) {
	d := c.def
	c.checkName(s, "name", d.Name)
	c.checkAtLeast(s, "version", d.Version, 1)
	c.tooLarge(s)
}

// checkStart checks the node at which a run begins. An empty dag is valid, and completes at once.
func (c *checker) checkStart(s site) {
	switch d := c.def; {
	// All nodes without predecessors start: to name one would have no meaning.
	case d.Mode == ModeDAG && d.Start != "":
		c.reportProblem(s, "start", problem.InvalidField, "with mode: dag every node without predecessors starts: leave it out")
	// A dag needs no start and may have no nodes.
	case d.Mode == ModeDAG:
	case len(d.Nodes) == 0:
		c.reportProblem(s, "nodes", problem.Missing, "there are no nodes")
	case d.Start == "":
		c.reportProblem(s, "start", problem.Missing, "name the first node")
	// A run would have no node to begin at.
	case !c.graph.hasNode(d.Start):
		c.reportProblem(s, "start", problem.Dangling, "there is no node %q", string(d.Start))
	}
}

// checkBounds checks that limits are only lowered. A definition may ask for less than the engine allows, not for
// more. The fields are those of the format, by their types: a test asks for a case of each.
func (c *checker) checkBounds(s site) {
	// The limits of the engine are written in the same form, so that a field is compared with the field of the same
	// name.
	l, most := writeFields(limitsFormat(&c.def.Limits)), DefaultLimits()
	upper := writeFields(limitsFormat(&most))
	// Only what the definition says is written, so a field that is 0 keeps the engine's limit.
	for _, name := range sortedKeys(l) {
		field := "limits." + name
		switch v := l[name].(type) {
		case int:
			if most := upper[name].(int); v < 1 || v > most {
				c.reportProblem(s, field, problem.OutOfRange, "%d is not in 1..%d, the limit of the engine", v, most)
			}
		case int64:
			if most := upper[name].(int64); v < 1 || v > most {
				c.reportProblem(s, field, problem.OutOfRange, "%d is not in 1..%d, the limit of the engine", v, most)
			}
		case uint64:
			if most := upper[name].(uint64); v > most {
				c.reportProblem(s, field, problem.OutOfRange, "%d is not in 1..%d, the limit of the engine", v, most)
			}
		}
	}
}

// checkAmounts checks numbers that results report: each has a name, and is from 0, or above it, to 2^53.
func (c *checker) checkAmounts(s site, field string, of map[string]float64, zero bool) {
	if len(of) > amount.MaxNames {
		c.reportProblem(s, field, problem.TooLarge, "%d names are more than %d", len(of), amount.MaxNames)
	}
	for _, name := range sortedKeys(of) {
		at := field + "." + name
		c.checkName(s, at, name)
		switch v := of[name]; {
		case !(v >= 0 && v <= value.MaxInteger): // which NaN fails as well
			c.reportProblem(s, at, problem.OutOfRange, "%v is not in 0..2^53", v)
		case v == 0 && !zero:
			c.reportProblem(s, at, problem.OutOfRange, "it is 0: nothing could begin")
		}
	}
}

// checkInitial checks the first state against the schema of each of its properties. Demands of the schema on the
// whole need not hold before the end. A property that is missing in the first state may be written later.
func (c *checker) checkInitial(s site) {
	d := c.def
	// A Go value may hold what JSON cannot, such as a channel.
	if _, err := value.Normalize(d.State.Initial, value.Limits{}); err != nil {
		c.reportProblem(s, "state.initial", problem.InvalidValue, "%s", err)
		return
	}
	// A schema that is true, or none, has no properties to compare with.
	doc, _ := d.State.Schema.(map[string]any)
	properties, _ := doc["properties"].(map[string]any)
	// A schema that is wrong is told once, where it stands.
	if _, err := value.Normalize(doc, value.Limits{}); err != nil {
		return // reported with the schema
	}
	source, err := schema.NewSource(d.State.Schema)
	if err != nil {
		return // reported with the schema
	}
	for _, name := range sortedKeys(d.State.Initial) {
		field := "state.initial." + name
		if _, ok := properties[name]; !ok {
			// This much is certain without the schema being compiled: the first write would find it too late.
			if forbidsProperty(doc, name) {
				c.reportProblem(s, field, problem.InvalidValue, "state.schema has no such property")
			}
			continue
		}
		// The part is compiled as the graph does it: what is valid here is valid there.
		compiled, err := source.At("properties", name)
		if err != nil {
			c.reportProblem(s, "state.schema", problem.Schema, "%s", schemaMessage(err))
			return
		}
		if err := compiled.Check(d.State.Initial[name]); err != nil {
			c.reportProblem(s, field, problem.InvalidValue, "it does not fit state.schema: %s", err)
		}
	}
}

// forbidsProperty reports whether a schema, as far as its own keywords tell, allows no object with a property.
func forbidsProperty(of any, name string) bool {
	doc, _ := of.(map[string]any)
	properties, _ := doc["properties"].(map[string]any)
	_, listed := properties[name]
	return !listed && doc["additionalProperties"] == false && doc["patternProperties"] == nil
}

// checkRunOutput checks the expressions that make the run's output when it completes.
func (c *checker) checkRunOutput(s site) {
	for _, name := range sortedKeys(c.def.Output.Mapping) {
		c.checkExpression(s, "output.mapping."+name, c.def.Output.Mapping[name], placeOutput)
	}
}

// checkSchema checks a JSON Schema; nil means no schema. It is compiled to be checked, and again for the graph:
// schemas are few. Size and number are looked at first, since compiling a hostile schema may take a second.
func (c *checker) checkSchema(s site, field string, doc any) {
	if doc == nil {
		return
	}
	if _, err := value.Normalize(doc, value.Limits{}); err != nil {
		c.reportProblem(s, field, problem.InvalidValue, "%s", err)
		return
	}
	// After so many wrong ones, or so much of them, no further schema is compiled.
	if c.wrongSchemas > maxWrongSchemas || c.tooManySubschemas(s, field, doc) {
		return
	}
	c.checkKeywords(s, field, doc)
	_, err := schema.Compile(doc)
	if err == nil {
		return
	}
	// The eleventh wrong one is not told of itself, but that there are more.
	if c.wrongSchemas++; c.wrongSchemas > maxWrongSchemas {
		c.reportProblem(s, field, problem.Schema, "up to here more than %d schemas are wrong: those behind are not looked at", maxWrongSchemas)
		return
	}
	c.reportProblem(s, field, problem.Schema, "%s", schemaMessage(err))
}

// The bounds of the unknown keywords that are told of.
const (
	maxUnknownKeywords = 10 // of a schema
	maxUnknownTogether = 50 // of a definition
)

// checkKeywords warns of keywords that JSON Schema does not know, which are most often misspelt. It is no error: they may be annotations.
func (c *checker) checkKeywords(s site, field string, doc any) {
	most := min(maxUnknownKeywords, maxUnknownTogether-c.unknownKeywords)
	if most == 0 {
		return
	}
	for i, k := range schema.FindUnknown(doc, most+1) {
		if i == most {
			c.reportWarning(s, field, problem.SchemaKeyword, "there are more unknown keywords")
			return
		}
		c.unknownKeywords++
		hint := "a name of your own begins with x-"
		if k.Near != "" {
			hint = "did you mean " + k.Near + "?"
		}
		c.reportWarning(s, field, problem.SchemaKeyword, "at %.200q: JSON Schema has no such keyword, and passes it over; %s", k.Path, hint)
	}
}

// tooManySubschemas reports whether the schemas up to this one have more subschemas than the bounds allow, and
// reports the problem once. Schemas beyond the bound are not compiled, which would be the cost. The problem is told
// at the schema that passes the bound, and later schemas are left out in silence.
func (c *checker) tooManySubschemas(s site, field string, doc any) bool {
	most, before := c.bounded.Subschemas, c.subschemas
	// A schema that stands at several nodes counts each time, since it is compiled each time.
	c.subschemas += schema.CountSubschemas(doc)
	if before <= most && c.subschemas > most {
		c.reportProblem(s, field, problem.TooLarge, "up to here the schemas have more than %d subschemas", most)
	}
	return c.subschemas > most
}

// maxWrongSchemas bounds how many wrong schemas are told of: each may take a second.
const maxWrongSchemas = 10

// schemaMessage makes one line of an error of the library. The library tells a tree of causes over several lines. The
// last of them is the innermost, and the address of the document means nothing to a reader.
func schemaMessage(err error) string {
	lines := strings.Split(err.Error(), "\n")
	message := lines[len(lines)-1]
	return strings.ReplaceAll(strings.TrimLeft(message, "- "), "mem:///schema", "")
}

// checkName checks an id, a name or a code that must be there.
func (c *checker) checkName(s site, field, name string) {
	if name == "" {
		c.reportProblem(s, field, problem.Missing, "it is missing")
		return
	}
	c.checkOptionalName(s, field, name)
}

// checkOptionalName checks an id, a name or a code that may be left out. A problem quotes no more than the beginning
// of a long one.
func (c *checker) checkOptionalName(s site, field, name string) {
	if name == "" {
		return
	}
	if fault := limits.NameFault(name); fault != "" {
		c.reportProblem(s, field, problem.InvalidName, "%.40q cannot be used: %s", name, fault)
	}
}

// checkNames checks a list of names, each under its index.
func (c *checker) checkNames(s site, field string, names []string) {
	for i, name := range names {
		c.checkName(s, fmt.Sprintf("%s[%d]", field, i), name)
	}
}

// checkAtLeast checks a number that has a smallest value.
func (c *checker) checkAtLeast(s site, field string, n, least int) {
	if n < least {
		c.reportProblem(s, field, problem.OutOfRange, "%d is less than %d", n, least)
	}
}

// checkDuration checks a duration; 0 stands for no duration or for the default. Texts cannot have a negative
// duration, Go values can.
func (c *checker) checkDuration(s site, field string, d time.Duration) {
	if d < 0 {
		c.reportProblem(s, field, problem.OutOfRange, "%s is less than 0", d)
	}
	if d > timeout.MaxWait && !c.bounded.isBoundless() {
		c.reportProblem(s, field, problem.OutOfRange, "%s is more than %s, 200 years", d, timeout.MaxWait)
	}
}

// checkInstant checks an expression that says until when to wait, where it reads nothing: what it comes to is known.
func (c *checker) checkInstant(s site, field, source string) {
	program := c.compiler.programs[source].program
	if program == nil || len(program.References()) > 0 || c.bounded.isBoundless() {
		return
	}
	at, err := program.EvalTime(expr.Map{})
	if err != nil && program.Type() == "string" {
		c.reportWarning(s, field, problem.ResultType, `%.80q is no instant of RFC 3339, such as "2026-12-24T18:00:00Z": the node fails with %s`, source, CodeExpression)
	}
	if err == nil && at.After(timeout.Literal) {
		c.reportProblem(s, field, problem.OutOfRange, "%s is after %s, the last instant that a definition may name; for something that never comes, wait for an event",
			at.Format(time.RFC3339), timeout.Literal.Format(time.RFC3339))
	}
}

// checkRange checks that a number is in a range; NaN is in none.
func (c *checker) checkRange(s site, field string, x, least, most float64) {
	switch {
	case x >= least && x <= most:
	// There is no upper bound to speak of.
	case most == math.MaxFloat64:
		c.reportProblem(s, field, problem.OutOfRange, "%v is not a number of at least %v", x, least)
	default:
		c.reportProblem(s, field, problem.OutOfRange, "%v is not in %v..%v", x, least, most)
	}
}

// knownValue checks an enumerated value; "" is the default. A text with another value is refused as it is read; this
// finds those of Go values.
func knownValue[T ~string](c *checker, s site, field string, v T, values []T) {
	if v != "" && !slices.Contains(values, v) {
		c.reportProblem(s, field, problem.UnknownValue, "%.40q is not one of %s", string(v), joinValues(values))
	}
}
