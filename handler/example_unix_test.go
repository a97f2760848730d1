//go:build unix

package handler_test

import (
	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
)

// A program that reads standard input and writes standard output.
func ExampleExec() {
	play(pawl.Handlers{"exec": handler.Exec(handler.ExecOptions{Programs: []string{"sort"}})}, `
name: sorted
start: sort
nodes:
  - {id: sort, task: exec, input: {argv: "['sort', '-r']", stdin: "input.words.join('\\n')", text: 'true'}, output: {output.words: result.stdout}}
`, map[string]any{"words": []string{"cup", "tea", "pot"}})
	// Output: completed {"words":"tea\npot\ncup\n"} <nil>
}
