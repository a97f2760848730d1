package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// The scripts ask pawl __complete, so that they need not know the commands.
//
//go:embed completion
var completionScripts embed.FS

var completionVerb = verb{
	name: "completion",
	help: "Write what bash, zsh or fish needs to complete commands and flags.",
	example: []string{
		`source <(pawl completion bash)                                  # in ~/.bashrc`,
		`source <(pawl completion zsh)                                   # in ~/.zshrc, after compinit`,
		`pawl completion fish > ~/.config/fish/completions/pawl.fish`,
	},
	command: func() command { return new(completionCommand) },
}

// A completionCommand writes the script of a shell.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCommand) runCommand(_ context.Context, con *console) error {
	script, err := completionScripts.ReadFile("completion/" + c.Shell)
	if err != nil {
		return err
	}
	_, _ = con.Out.Write(script) // finish tells the error
	return nil
}

var completeVerb = verb{
	name:    "__complete",
	help:    "List what may stand in place of the last word. The scripts of completion ask it.",
	hidden:  true,
	command: func() command { return new(completeCommand) },
}

// A completeCommand lists what may stand in place of the last of some words: a line each,
// a tab, and what it is. No line means that the shell completes names of files.
type completeCommand struct {
	Words []string `arg:"" optional:"" help:"The words after pawl; the last is the one to complete."`
}

// runCommand lists what may stand there, as far as it begins like the word. It needs the parser of all verbs, and writes nothing
// to Errs: a shell would show that in the middle of the line that is typed.
func (c *completeCommand) runCommand(ctx context.Context, con *console) error {
	parser, err := con.newParser(func(int) {})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, con.Patience)
	defer cancel()
	last := ""
	if n := len(c.Words); n > 0 {
		last, c.Words = c.Words[n-1], c.Words[:n-1]
	}
	for _, candidate := range completeWord(ctx, parser.Model.Node, joinValues(c.Words), last) {
		if strings.HasPrefix(candidate, last) {
			fmt.Fprintln(con.Out, candidate)
		}
	}
	return nil
}

// joinValues makes one word of what stands around a =, such as a flag and its value, which bash takes for a word of its own.
func joinValues(words []string) (out []string) {
	joins := false
	for _, word := range words {
		if n := len(out) - 1; n >= 0 && (joins || word == "=") {
			out[n] += word
		} else {
			out = append(out, word)
		}
		joins = word == "="
	}
	return out
}

// completeWord returns what may stand in place of last, after the words before it. In this order: the verb, the value of the flag
// before it, a flag, then the argument at this place. nil lets the shell complete names of files.
func completeWord(ctx context.Context, root *kong.Node, before []string, last string) []string {
	if len(before) == 0 {
		return commandNames(root)
	}
	i := slices.IndexFunc(root.Children, func(n *kong.Node) bool { return n.Name == before[0] })
	if i < 0 {
		return nil
	}
	chosen := root.Children[i]
	for len(chosen.Children) > 0 { // a verb with commands below it
		if before = before[1:]; len(before) == 0 {
			return commandNames(chosen)
		}
		if i = slices.IndexFunc(chosen.Children, func(n *kong.Node) bool { return n.Name == before[0] }); i < 0 {
			return nil
		}
		chosen = chosen.Children[i]
	}
	// joinValues has made one word of --flag=, whose value is then the word to complete.
	name, begun := strings.CutSuffix(before[len(before)-1], "=") // the word goes on
	if f := valueFlag(chosen, name); f != nil {
		return completeFlag(chosen, f, last)
	} else if begun {
		return nil
	}
	if strings.HasPrefix(last, "-") {
		return flagNames(chosen)
	}
	n := len(argumentsIn(chosen, before[1:]))
	if all := chosen.Positional; n >= len(all) && len(all) > 0 && all[len(all)-1].IsCumulative() {
		n = len(all) - 1
	}
	if n >= len(chosen.Positional) {
		return nil
	}
	switch word := chosen.Positional[n]; {
	case word.Enum != "":
		return word.EnumSlice()
	case slices.Contains([]string{"run", "a", "b"}, word.Name):
		return completeRun(ctx, dirIn(before), last)
	case word.Name == "schedule":
		return completeSchedule(ctx, dirIn(before))
	case word.Name == "thread-or-node" && n == 1:
		return completeNode(ctx, dirIn(before), argumentsIn(chosen, before[1:])[0], targetStatuses[chosen.Name])
	}
	return nil
}

// completeFlag returns the values of a flag. In a list of statuses it completes the last one, and keeps those before it; in a condition,
// the name of a field that ends it.
func completeFlag(chosen *kong.Node, f *kong.Flag, last string) []string {
	var out []string
	if f.Name == "where" {
		begun := strings.LastIndexFunc(last, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) }) + 1
		for _, name := range acts.ConditionFields() {
			out = append(out, last[:begun]+name)
		}
		return out
	}
	if f.Name != "status" {
		return f.EnumSlice()
	}
	given := last[:strings.LastIndexByte(last, ',')+1]
	if chosen.Name == tokensVerb.name {
		for s := range workflow.Cancelled + 1 {
			out = append(out, given+s.String())
		}
		return out
	}
	for s := range workflow.RunCancelled + 1 {
		out = append(out, given+s.String())
	}
	return out
}

// targetStatuses are, by verb, those of the tokens that it is about.
var targetStatuses = map[string][]workflow.TokenStatus{
	voteVerb.name:  {workflow.WaitingForApproval},
	retryVerb.name: {workflow.WaitingForOperator, workflow.Retrying},
	skipVerb.name:  {workflow.WaitingForOperator, workflow.Retrying, workflow.Dispatched},
}

// completeNode lists the nodes of a run where tokens are in one of some statuses, of an engine that others can reach.
func completeNode(ctx context.Context, dir, run string, statuses []workflow.TokenStatus) (out []string) {
	client, err := api.Dial(ctx, dir)
	if err != nil {
		return nil
	}
	defer client.Close()
	o, err := client.Overview(ctx, workflow.RunID(run))
	if err != nil {
		return nil
	}
	for _, n := range o.Nodes {
		there := slices.ContainsFunc(statuses, func(s workflow.TokenStatus) bool { return n.Tokens[s] > 0 })
		if there && plainID.MatchString(string(n.Node)) {
			out = append(out, fmt.Sprintf("%s\t%s", n.Node, tokensText(n.Tokens)))
		}
	}
	return out
}

// The bounds of completing a word: how many ids of runs are listed, and how long an engine that is asked may take.
const (
	completedRuns = 50
	completeTime  = time.Second
)

// plainID fits the ids that no shell takes for anything else, nor the command for a flag. Other ids exist; the shell would need
// quotes around them, which each shell writes in another way, so they are left out.
var plainID = regexp.MustCompile(`^[\w./@%+,][\w./@%+,=-]*$`)

// completeRun lists the newest runs whose ids begin so, of an engine that others can reach. It opens no directory: no program
// is to find its own locked because somebody has pressed a key.
func completeRun(ctx context.Context, dir, prefix string) (out []string) {
	client, err := api.Dial(ctx, dir)
	if err != nil {
		return nil
	}
	defer client.Close()
	for run, err := range client.Runs(ctx, pawl.RunFilter{Prefix: prefix, Newest: true, Limit: completedRuns}) {
		if err != nil {
			break
		}
		if plainID.MatchString(string(run.Run)) {
			out = append(out, fmt.Sprintf("%s\t%s, %v", run.Run, run.Workflow, run.Status))
		}
	}
	return out
}

// completeSchedule lists the schedules of an engine that others can reach.
func completeSchedule(ctx context.Context, dir string) (out []string) {
	client, err := api.Dial(ctx, dir)
	if err != nil {
		return nil
	}
	defer client.Close()
	for st, err := range client.Schedules(ctx, "") {
		if err != nil {
			break
		}
		if id := st.Schedule.ID; plainID.MatchString(id) {
			out = append(out, id+"\t"+st.Why)
		}
	}
	return out
}

// dirIn returns the engine directory that some words name, or that a command takes without. kong is
// not asked, since the line is not finished and would not parse.
func dirIn(words []string) string {
	dir := cmp.Or(os.Getenv("PAWL_DIR"), "data")
	for i, word := range words {
		if value, ok := strings.CutPrefix(word, "--dir="); ok {
			dir = value
		} else if word == "--dir" && i+1 < len(words) {
			dir = words[i+1]
		}
	}
	return dir
}

func commandNames(root *kong.Node) []string {
	var out []string
	for _, n := range root.Children {
		if !n.Hidden {
			out = append(out, n.Name+"\t"+n.Help)
		}
	}
	return out
}

func flagNames(chosen *kong.Node) []string {
	var out []string
	for _, group := range chosen.AllFlags(true) {
		for _, f := range group {
			out = append(out, "--"+f.Name+"\t"+f.Help)
		}
	}
	return out
}

// valueFlag returns the flag that word is, if the next word is its value.
func valueFlag(chosen *kong.Node, word string) *kong.Flag {
	for _, group := range chosen.AllFlags(true) {
		for _, f := range group {
			if (word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)) && !f.IsBool() {
				return f
			}
		}
	}
	return nil
}

// argumentsIn returns those of the words that are arguments, neither flags nor their values. It
// goes by the flags of the verb alone, in any order, as kong takes them.
func argumentsIn(chosen *kong.Node, words []string) (out []string) {
	for i, word := range words {
		if !strings.HasPrefix(word, "-") && (i == 0 || valueFlag(chosen, words[i-1]) == nil) {
			out = append(out, word)
		}
	}
	return out
}
