package workflow

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/value"
)

// definition checks what belongs to no node and no transition.
func (c *checker) definition() {
	d, s := c.def, c.atDefinition()
	c.identity(s)
	knownValue(c, s, "mode", d.Mode, modes)
	if d.FailFast != nil && d.Mode != ModeDAG {
		c.report(s, "failFast", ProblemInvalidField, "failFast is for mode: dag")
	}
	c.start(s)
	c.duration(s, "timeout", d.Timeout)
	c.bounds(s)
	c.schema(s, "input.schema", d.Input.Schema)
	c.schema(s, "output.schema", d.Output.Schema)
	c.schema(s, "state.schema", d.State.Schema)
	c.initial(s)
	c.runOutput(s)
}

func (c *checker) identity(s site) {
	d := c.def
	c.name(s, "name", d.Name)
	c.atLeast(s, "version", d.Version, 1)
	c.tooLarge(s)
}

func (c *checker) start(s site) {
	switch d := c.def; {
	case d.Mode == ModeDAG && d.Start != "":
		c.report(s, "start", ProblemInvalidField, "with mode: dag every node without predecessors starts")
	case d.Mode == ModeDAG:
	case len(d.Nodes) == 0:
		c.report(s, "nodes", ProblemMissing, "there are no nodes")
	case d.Start == "":
		c.report(s, "start", ProblemMissing, "name the first node")
	case !c.graph.has(d.Start):
		c.report(s, "start", ProblemDangling, "there is no node %q", string(d.Start))
	}
}

// bounds checks that limits are only lowered.
func (c *checker) bounds(s site) {
	l, most := writeFields(limitsFormat(&c.def.Limits)), DefaultLimits()
	upper := writeFields(limitsFormat(&most))
	for _, name := range sortedKeys(l) {
		field := "limits." + name
		switch v := l[name].(type) {
		case int:
			if most := upper[name].(int); v < 1 || v > most {
				c.report(s, field, ProblemOutOfRange, "%d is not in 1..%d, the limit of the engine", v, most)
			}
		case uint64:
			if most := upper[name].(uint64); v > most {
				c.report(s, field, ProblemOutOfRange, "%d is not in 1..%d, the limit of the engine", v, most)
			}
		}
	}
}

// initial checks the first state against the schema of each of its properties.
// What the schema demands of the whole need not hold before the end.
func (c *checker) initial(s site) {
	d := c.def
	if _, err := value.Normalize(d.State.Initial, value.Limits{}); err != nil {
		c.report(s, "state.initial", ProblemInvalidValue, "%s", err)
		return
	}
	doc, _ := d.State.Schema.(map[string]any)
	properties, _ := doc["properties"].(map[string]any)
	if _, err := value.Normalize(doc, value.Limits{}); err != nil {
		return // reported with the schema
	}
	source, err := newSchemaSource(d.State.Schema)
	if err != nil {
		return // reported with the schema
	}
	for _, name := range sortedKeys(d.State.Initial) {
		field := "state.initial." + name
		if _, ok := properties[name]; !ok {
			if doc["additionalProperties"] == false && doc["patternProperties"] == nil {
				c.report(s, field, ProblemInvalidValue, "state.schema has no such property")
			}
			continue
		}
		compiled, err := source.schemaAt("properties", name)
		if err != nil {
			c.report(s, "state.schema", ProblemSchema, "%s", schemaMessage(err))
			return
		}
		if err := compiled.Check(d.State.Initial[name]); err != nil {
			c.report(s, field, ProblemInvalidValue, "it does not fit state.schema: %s", err)
		}
	}
}

func (c *checker) runOutput(s site) {
	for _, name := range sortedKeys(c.def.Output.Mapping) {
		c.expression(s, "output.mapping."+name, c.def.Output.Mapping[name], placeOutput)
	}
}

// schema checks a JSON Schema; nil is none.
func (c *checker) schema(s site, field string, doc any) {
	if doc == nil {
		return
	}
	if _, err := value.Normalize(doc, value.Limits{}); err != nil {
		c.report(s, field, ProblemInvalidValue, "%s", err)
		return
	}
	if _, err := CompileSchema(doc); err != nil {
		c.report(s, field, ProblemSchema, "%s", schemaMessage(err))
	}
}

// schemaMessage makes one line of an error of the library.
func schemaMessage(err error) string {
	lines := strings.Split(err.Error(), "\n")
	message := lines[len(lines)-1]
	return strings.ReplaceAll(strings.TrimLeft(message, "- "), "mem:///schema", "")
}

// name checks an id, a name or a code that must be there.
func (c *checker) name(s site, field, name string) {
	if name == "" {
		c.report(s, field, ProblemMissing, "it is missing")
		return
	}
	c.optionalName(s, field, name)
}

func (c *checker) optionalName(s site, field, name string) {
	if name == "" {
		return
	}
	if problem := nameProblem(name); problem != "" {
		c.report(s, field, ProblemInvalidName, "%.40q cannot be used: %s", name, problem)
	}
}

func (c *checker) names(s site, field string, names []string) {
	for i, name := range names {
		c.name(s, fmt.Sprintf("%s[%d]", field, i), name)
	}
}

func (c *checker) atLeast(s site, field string, n, least int) {
	if n < least {
		c.report(s, field, ProblemOutOfRange, "%d is less than %d", n, least)
	}
}

func (c *checker) duration(s site, field string, d time.Duration) {
	if d < 0 {
		c.report(s, field, ProblemOutOfRange, "%s is less than 0", d)
	}
}

// within checks that a number is in a range; NaN is in none.
func (c *checker) within(s site, field string, x, least, most float64) {
	switch {
	case x >= least && x <= most:
	case most == math.MaxFloat64:
		c.report(s, field, ProblemOutOfRange, "%v is not a number of at least %v", x, least)
	default:
		c.report(s, field, ProblemOutOfRange, "%v is not in %v..%v", x, least, most)
	}
}

// knownValue checks an enumerated value; "" is the default.
func knownValue[T ~string](c *checker, s site, field string, v T, values []T) {
	if v != "" && !slices.Contains(values, v) {
		c.report(s, field, ProblemUnknownValue, "%.40q is not one of %s", string(v), joinValues(values))
	}
}
