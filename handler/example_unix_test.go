//go:build unix

package handler_test

import (
	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
)

// A program whose options are the host's: the program looks for the text of the input, whatever
// that is.
func ExampleExec() {
	play(pawl.Handlers{"exec": handler.Exec(handler.ExecOptions{Command: []string{"grep", "-i", "--", "{}"}})}, `
name: found
start: find
nodes:
  - {id: find, task: exec, input: {operands: "[input.word]", stdin: "input.words.join('\\n')", text: 'true', accept: '[1]'}, output: {output.words: result.stdout}}
`, map[string]any{"word": "--file=/etc/passwd|P", "words": []string{"cup", "tea", "pot", "--FILE=/etc/passwd|P"}})
	// Output: completed {"words":"--FILE=/etc/passwd|P\n"} <nil>
}
