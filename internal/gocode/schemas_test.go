package gocode

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// odd are definitions whose Go is compiled by TestPackagesCompile, as a package and as calls, and lines that it has or, with a ! before them,
// does not have. Blanks between the words of a line are one.
var odd = map[string]struct {
	text  string
	lines []string
}{
	"atime": {`
name: atime
start: a
input: {schema: {type: object, description: all the time. Yes}}
nodes: [{id: a, task: a, input: {at: input.time.start, "of": "run.workflow.startsWith('x')"}}]
`, []string{`!"time"`}},
	"dropped": {`
name: dropped
start: a
state: {schema: {type: object, properties: {when: {type: string, format: date-time}}}, initial: {when: x}}
nodes: [{id: a, task: t, input: {at: state.when}}, {id: b, task: t, input: {at: "'x'"}}]
transitions: [{from: a, to: b}]
`, []string{`!"time"`, "At any `json:\"at\"`"}},
	"waits": {`
name: waits
start: a
nodes: [{id: a, wait: {for: 5m}}]
`, nil},
	"null": {`
name: "null"
start: a
input:
  schema:
    type: [object, "null"]
    properties:
      item: {type: [object, "null"], properties: {x: {type: string}}}
      Item: {type: [object, "null"], properties: {y: {type: string}, down: {$ref: "#/properties/Item"}}}
      word: {enum: [a, null], type: [string, "null"]}
      Word: {enum: [b, null], type: [string, "null"]}
nodes: [{id: a, task: t, input: {all: input}}]
`, []string{"type Input struct {", "type InputItem struct {", "type InputItem2 struct {", "type InputWord string", "type InputWord2 string", "!type Input *Input", "!type InputItem *InputItem"}},
	"joined": {`
name: joined
start: a
input:
  schema:
    type: object
    required: [extra, gone]
    properties:
      extra: {type: string}
      kind: {const: x}
      customer: {type: object, properties: {vip: {type: boolean}}}
      same: {$ref: "#/$defs/base", description: no more than that, required: [id], type: object}
      either: {$ref: "#/$defs/base", anyOf: [{required: [id]}, {required: [kind]}]}
      more: {$ref: "#/$defs/base", properties: {more: {type: integer}}, allOf: [{properties: {other: {type: string}}}]}
      open: {$ref: "#/$defs/base", additionalProperties: {type: string}}
      self: {$ref: "#", properties: {more: {type: integer}}}
      list: {$ref: "#/$defs/list", items: {type: object, properties: {more: {type: integer}}}}
      words: {allOf: [{type: array, items: {type: string}}], items: {maxLength: 3}}
      maybe: {anyOf: [{$ref: "#/$defs/base"}, {type: "null"}], properties: {more: {type: integer}}}
      needed: {$ref: "#/$defs/base", required: [more]}
      tag: {$ref: "#/$defs/base", properties: {"a,b": {type: integer}}}
    allOf: [{$ref: "#/$defs/base"}]
    $defs:
      base: {type: object, description: The base., properties: {id: {type: string}, kind: {type: string}, customer: {type: object, properties: {name: {type: string}}}}}
      list: {type: array, items: {$ref: "#/$defs/base"}}
nodes:
  - {id: a, task: t, input: {extra: input.extra, kind: input.kind, id: input.more.id, more: input.more.more, customer: input.customer, other: input.open, first: input.list}}
`, []string{
		"type Input struct {", "Customer any `json:\"customer,omitzero\"`", "Extra string `json:\"extra\"`", "Gone any `json:\"gone\"`", "ID *string `json:\"id,omitzero\"`",
		"Kind *string `json:\"kind,omitzero\"`", "Same *InputBase `json:\"same,omitzero\"`", "Either *InputBase `json:\"either,omitzero\"`",
		"More map[string]any `json:\"more,omitzero\"`", "Open map[string]any `json:\"open,omitzero\"`", "Self any `json:\"self,omitzero\"` // its schema joins others",
		"List any `json:\"list,omitzero\"` // its schema joins others", "Words []string `json:\"words,omitzero\"`", "Maybe *InputMaybe `json:\"maybe,omitzero\"`", "type InputMaybe struct {",
		"Needed *InputNeeded `json:\"needed,omitzero\"`", "Tag map[string]any `json:\"tag,omitzero\"`",
		"Extra string `json:\"extra\"` First", "Kind any `json:\"kind\"`", "ID string `json:\"id\"`", "More int64 `json:\"more\"`", "Customer any `json:\"customer\"`",
	}},
	"needed": {`
name: needed
start: a
input: {schema: {type: object, required: [prices, region, "-"], properties: {prices: {type: object, additionalProperties: {type: number}}}}}
output: {schema: {type: object, required: ["a,b"], properties: {x: {type: string}}}}
nodes:
  - {id: a, task: t, outputSchema: {type: object, properties: {a: {type: string}}, anyOf: [{properties: {b: {type: string}}}]}}
  - {id: b, task: u, outputSchema: {type: object, required: [a]}}
transitions: [{from: a, to: b}]
`, []string{"Prices map[string]float64 `json:\"prices\"`", "Region any `json:\"region\"`", "X any `json:\"-,\"`", "type Output map[string]any",
		"type TOutput struct { A *string `json:\"a,omitzero\"` B *string `json:\"b,omitzero\"` }", "type UOutput map[string]any"}},
	"times": {`
name: times
start: a
nodes:
  - {id: a, task: t, outputSchema: {type: string, format: date-time}}
  - {id: b, task: u, outputSchema: {$ref: "#/$defs/time", $defs: {time: {type: [string, "null"], format: date-time}}}}
  - {id: c, task: v, input: {at: result}}
transitions: [{from: a, to: b}, {from: b, to: c}]
`, []string{"type TOutput = time.Time", "type UOutput = *time.Time", "At UOutput `json:\"at\"`"}},
	"trees": {`
name: trees
start: a
state: {schema: {type: object, additionalProperties: {$ref: "#"}}, initial: {}}
output: {mapping: {tree: nodes.a.output}}
nodes:
  - {id: a, task: t, input: {all: state}, outputSchema: {type: array, items: {$ref: "#"}}}
  - {id: b, wait: {event: grown}, outputSchema: {type: object, properties: {payload: {$ref: "#/$defs/tree"}}, $defs: {tree: {type: array, items: {$ref: "#/$defs/tree"}}}}}
transitions: [{from: a, to: b}]
`, []string{"type State map[string]*State", "All State `json:\"all\"`", "type AResult []*AResult", "Tree AResult `json:\"tree\"`", "type TOutput []*TOutput", "type BResultTree []*BResultTree"}},
	"entries": {`
name: entries
start: a
nodes:
  - {id: a, task: t, input: {start: result}, outputSchema: &s {type: object, required: [x], properties: {x: {type: string}}}}
  - {id: b, task: u, input: {after: result, part: result.x}, outputSchema: *s}
  - {id: c, task: v, input: {ever: result, some: result.x}, outputSchema: *s}
  - {id: d, task: w, input: {caught: result}, outputSchema: *s}
  - {id: e, task: x, join: all, input: {all: result}}
  - {id: f, task: y, join: synchronize, input: {any: result}}
transitions:
  - {from: a, to: b}
  - {from: b, to: c, outcome: always}
  - {from: b, to: a, loop: {maxIterations: 2}, priority: -1}
  - {from: b, to: d, outcome: error}
  - {from: c, to: e}
  - {from: c, to: f}
`, []string{"Start *TOutput `json:\"start\"`", "After TOutput `json:\"after\"`", "Part string `json:\"part\"`", "Ever *TOutput `json:\"ever\"`", "Some string `json:\"some\"`",
		"Caught *TOutput `json:\"caught\"`", "All any `json:\"all\"`", "Any any `json:\"any\"`"}},
	"graph": {`
name: graph
mode: dag
nodes:
  - {id: a, task: t, outputSchema: {type: object, required: [x], properties: {x: {type: string}}}}
  - {id: b, task: u, input: {result: result, node: nodes.a.output}, needs: [a]}
`, []string{"Result any `json:\"result\"`", "Node TOutput `json:\"node\"`"}},
	"sometimes": {`
name: sometimes
start: a
input:
  schema:
    type: object
    properties:
      if: &card {properties: {kind: {type: string}}, if: {properties: {kind: {const: card}}}, then: {required: [kind]}, else: false}
      then: {properties: {kind: {type: string}}, then: {required: [number]}}
      else: {properties: {kind: {type: string}}, else: {allOf: [{properties: {number: {type: string}}}]}}
      deep: {properties: {kind: {type: string}}, then: {then: {properties: {number: {type: string}}}}}
      inner: {properties: {kind: {properties: {a: {type: string}}}}, then: {properties: {kind: {properties: {b: {type: string}}}}}}
      depends: {properties: {kind: {type: string}}, dependentSchemas: {kind: {properties: {number: {type: string}}}}}
      rest: {properties: {kind: {type: string}}, unevaluatedProperties: {type: string}}
      all: {properties: {kind: {type: string}}, unevaluatedProperties: true}
      none: {properties: {kind: {type: string}}, unevaluatedProperties: false}
      joined: {$ref: "#/properties/none", then: {properties: {number: {type: string}}}}
      self: {properties: {self: {$ref: "#/properties/self"}}, then: {required: [number]}}
nodes: [{id: a, task: t}]
`, []string{"If *InputIf `json:\"if,omitzero\"`", "Then map[string]any `json:\"then,omitzero\"`", "Else map[string]any `json:\"else,omitzero\"`", "Deep map[string]any `json:\"deep,omitzero\"`",
		"Inner map[string]any `json:\"inner,omitzero\"`", "Depends map[string]any `json:\"depends,omitzero\"`", "Rest map[string]any `json:\"rest,omitzero\"`",
		"All map[string]any `json:\"all,omitzero\"`", "None *InputNone `json:\"none,omitzero\"`", "Joined map[string]any `json:\"joined,omitzero\"`", "type InputSelf map[string]any"}},
	"nulls": {`
name: nulls
start: a
input: {schema: {type: object, required: [one, list, text], properties: {one: {enum: [x, null]}, list: {type: array, items: {enum: [x, y, null]}}, text: {enum: [x, null], type: string}}}}
nodes: [{id: a, task: t}]
`, []string{"One *InputOne `json:\"one\"`", "List []*InputListItem `json:\"list\"`", "Text InputText `json:\"text\"`"}},
}

// The types of schemas hold all that the schemas describe, and imports are those of the declarations.
func TestTypesOfSchemas(t *testing.T) {
	for name, o := range odd {
		text := strings.Join(strings.Fields(string(writePackage(t, workflow.MustParse([]byte(o.text)), Options{File: name}))), " ")
		for _, line := range o.lines {
			if want, ok := strings.CutPrefix(line, "!"); ok {
				require.NotContains(t, text, want, name)
			} else {
				require.Contains(t, text, line, name)
			}
		}
	}
}
