package workflow_test

import (
	"fmt"

	"github.com/pawl-run/pawl/workflow"
)

func ExampleParseYAML() {
	d, err := workflow.ParseYAML([]byte(`
name: greeting
start: greet
nodes:
  - {id: greet, task: greet, input: {name: input.name}}
`))
	fmt.Println(d.Name, len(d.Nodes), err)

	_, err = workflow.ParseYAML([]byte(`
name: greeting
start: greet
nodes:
  - {id: greet, taks: greet}
`))
	fmt.Println(err)
	// Output:
	// greeting 1 <nil>
	// invalid definition "greeting": line 5:17: node "greet": taks: there is no such field; did you mean task? (unknown_field)
}

func ExampleDefinition_Check() {
	d := &workflow.Definition{
		Name: "polling", Start: "poll",
		Nodes: []workflow.Node{{ID: "poll", Task: "http", Input: map[string]string{"url": "inptu.url"}}},
		Transitions: []workflow.Transition{
			{From: "poll", To: "poll"},
			{From: "poll", To: "done"},
		},
	}
	for _, p := range d.Check() {
		fmt.Println(p)
	}
	// Output:
	// node "poll": input.url: at 1:1 of the expression: unknown variable inptu; did you mean input? (unknown_variable)
	// warning: node "poll": a cycle without a bounded loop or an exit: poll -> poll (endless_cycle)
	// transition "poll->done": to: there is no node "done" (dangling)
}
