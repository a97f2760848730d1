package pawltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// instants are scenarios in which several things happen at the instant of a timer, %s after the start.
const instants = `
scenario: a signal and the end of a wait
definition: {name: w, start: w, nodes: [{id: w, wait: {any: [{event: m}, {for: %[1]s}]}, output: {output.c: result.cause}}]}
events: [{at: %[1]s, signal: {name: m}}]
expect: {output: {c: event}}
---
scenario: two signals and the end of a wait for the second
definition:
  name: two
  start: s
  nodes:
    - {id: s}
    - {id: a, wait: {any: [{event: a}, {for: %[1]s}]}, output: {state.a: result.cause}}
    - {id: b, wait: {any: [{event: b}, {for: %[1]s}]}, output: {state.b: result.cause}}
  transitions: [{from: s, to: a}, {from: s, to: b}]
events: [{at: %[1]s, signal: {name: a}}, {at: %[1]s, signal: {name: b}}]
expect: {state: {a: event, b: event}}
---
scenario: a vote and the timeout of an approval
definition: {name: v, start: v, nodes: [{id: v, approval: {message: '"ok"'}, timeout: %[1]s}]}
events: [{at: %[1]s, vote: {node: v, by: ann, approved: true}}]
expect: {status: completed}
---
scenario: results and the timeouts of their attempts
definition:
  name: results
  start: s
  nodes: [{id: s}, {id: a, task: t, timeout: %[1]s}, {id: b, task: t, timeout: %[1]s}]
  transitions: [{from: s, to: a}, {from: s, to: b}]
mocks: {a: [{delay: %[1]s}], b: [{delay: %[1]s}]}
expect: {nodes: {a: 1, b: 1}}
---
scenario: results and the timeout of their group
definition:
  name: group
  start: s
  nodes: [{id: s}, {id: w, task: t}, {id: j, output: {output.n: size(result)}}]
  transitions:
    - {from: s, to: w, siblingGroup: g, spawnCount: 3}
    - {from: w, to: j, synchronization: {siblingGroup: g, timeout: %[1]s, merge: {source: result, target: state.all, strategy: collect}}}
mocks: {w: [{delay: %[1]s}]}
expect: {nodes: {w: 3, j: 1}}
---
scenario: a result and the timeout of the run
definition: {name: run, timeout: %[1]s, start: a, nodes: [{id: a, task: t}]}
mocks: {a: [{delay: %[1]s}]}
expect: {status: completed}
---
scenario: a pause and the next attempt
definition: {name: pause, start: a, nodes: [{id: a, task: t, retry: {maxAttempts: 2, initialInterval: %[1]s, backoffCoefficient: 1}}]}
mocks: {a: [{error: {code: busy}}]}
events: [{at: %[1]s, pause: true}]
expect: {status: paused, events: {task.dispatched: 1}}
---
scenario: a cancel and the next attempt
definition: {name: cancel, start: a, nodes: [{id: a, task: t, retry: {maxAttempts: 2, initialInterval: %[1]s, backoffCoefficient: 1}}]}
mocks: {a: [{error: {code: busy}}]}
events: [{at: %[1]s, cancel: true}]
expect: {status: cancelled, events: {task.dispatched: 1}}
---
scenario: two events and the next attempt
definition: {name: both, start: a, nodes: [{id: a, task: t, retry: {maxAttempts: 2, initialInterval: %[1]s, backoffCoefficient: 1}}]}
mocks: {a: [{error: {code: busy}}]}
events: [{at: %[1]s, signal: {name: x, early: true}}, {at: %[1]s, pause: true}]
expect: {status: paused, events: {task.dispatched: 1}}
---
scenario: a child and the timeout of the node that waits for it
definition: {name: parent, start: c, nodes: [{id: c, subworkflow: {name: child}, timeout: %[1]s}]}
definitions: [{name: child, start: w, nodes: [{id: w, wait: {for: %[1]s}}]}]
expect: {status: completed, children: {child: [completed]}}
---
scenario: timers of many runs
definition:
  name: parent
  start: s
  state: {initial: {log: []}}
  nodes:
    - {id: s}
    - {id: a, subworkflow: {name: child}, output: {"state.log[]": "'a'"}}
    - {id: b, subworkflow: {name: child}, output: {"state.log[]": "'b'"}}
    - {id: c, subworkflow: {name: child}, output: {"state.log[]": "'c'"}}
  transitions: [{from: s, to: a}, {from: s, to: b}, {from: s, to: c}]
definitions: [{name: child, start: w, nodes: [{id: w, wait: {for: %[1]s}}]}]
expect: {state: {log: [a, b, c]}}
`

// Results come before events, and both before timers, which come one run after the other, however long the run has
// had nothing to do: the engine has let go of one that is idle for 10 seconds.
func TestInstantsAreInOrder(t *testing.T) {
	for _, after := range []string{"5s", "10m"} {
		path := filepath.Join(t.TempDir(), "s.yaml")
		require.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf(strings.TrimSpace(instants), after)), 0o600))
		scenarios, err := Load(path)
		require.NoError(t, err)
		for _, s := range scenarios {
			t.Run(s.Name+"/"+after, func(t *testing.T) {
				t.Parallel()
				for range harness.Figure(4, 15, 100) {
					r := Play(t, s, Options{})
					require.True(t, r.Passed, "%v", r)
				}
			})
		}
	}
}

// The clock of a play ends in the year 2262: a scenario that needs a later instant is an error, and does not spin.
func TestTheEndOfTime(t *testing.T) {
	const definition = "definition: {name: d, start: s, nodes: [{id: s}, {id: a, wait: {for: 1700000h}}, {id: b, wait: {for: 1700000h}}], transitions: [{from: s, to: a}, {from: a, to: b}]}\n"
	const short = "definition: {name: d, start: a, nodes: [{id: a, task: t}]}\n"
	for name, test := range map[string]struct{ text, want string }{
		"a timer":       {definition + "expect: {}", "virtual time ends at 2262-04-11T23:47:16Z, and nothing happens before 2387-"},
		"a task":        {short + "mocks: {a: [{delay: 2400000h}]}\nexpect: {}", "nothing happens before 2273-"},
		"an event":      {short + "mocks: {a: [{delay: 2500000h}]}\nevents: [{at: 2400000h, cancel: true}]\nexpect: {}", "nothing happens before 2273-"},
		"a downtime":    {short + "mocks: {a: [{delay: 2s}]}\nevents: [{at: 1s, crash: true, downtime: 2400000h}]\nexpect: {}", "nothing happens before 2273-"},
		"a wait before": {definition + "events: [{at: 1h, cancel: true}]\nexpect: {status: cancelled}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := Play(t, load(t, "scenario: far\n"+test.text+"\n"), Options{})
			if test.want == "" {
				require.True(t, r.Passed, r.String())
				return
			}
			require.Contains(t, r.Error, test.want)
		})
	}
}

// A wait for an instant that is further ahead than a definition may say fails where an expression comes to it.
func TestAWaitThatIsTooLong(t *testing.T) {
	for until, want := range map[string]string{
		"input.at":                          "{status: failed, error: {code: expression_error}}",
		"timestamp(input.at)":               "{status: failed, error: {code: expression_error}}",
		"now + duration('1753000h')":        "{status: failed, error: {code: expression_error}}",
		"now + duration('1751000h')":        "{}",
		"'2300-01-01T00:00:00Z'":            "{status: refused, error: {code: invalid_definition}}",
		"timestamp('9999-12-31T00:00:00Z')": "{status: refused, error: {code: invalid_definition}}",
	} {
		r := Play(t, load(t, "scenario: far\ndefinition: {name: d, start: a, nodes: [{id: a, wait: {until: \""+until+"\"}}]}\ninput: {at: \"2300-01-01T00:00:00Z\"}\nexpect: "+want), Options{})
		require.True(t, r.Passed, "%s: %s", until, r)
	}
}
