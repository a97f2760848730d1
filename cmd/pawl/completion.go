package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
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
	_, _ = con.Out.Write(script) // nothing can be done about an output that is closed
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

func (c *completeCommand) runCommand(_ context.Context, con *console) error {
	parser, err := con.newParser(func(int) {})
	if err != nil {
		return err
	}
	last := ""
	if n := len(c.Words); n > 0 {
		last, c.Words = c.Words[n-1], c.Words[:n-1]
	}
	for _, candidate := range completeWord(parser.Model.Node, c.Words, last) {
		if strings.HasPrefix(candidate, last) {
			fmt.Fprintln(con.Out, candidate)
		}
	}
	return nil
}

// completeWord returns what may stand in place of last, after the words before it.
func completeWord(root *kong.Node, before []string, last string) []string {
	if len(before) == 0 {
		return commandNames(root)
	}
	i := slices.IndexFunc(root.Children, func(n *kong.Node) bool { return n.Name == before[0] })
	if i < 0 {
		return nil
	}
	chosen := root.Children[i]
	if f := valueFlag(chosen, before[len(before)-1]); f != nil {
		return f.EnumSlice()
	}
	if strings.HasPrefix(last, "-") {
		return flagNames(chosen)
	}
	n := positionsIn(chosen, before[1:])
	if n < len(chosen.Positional) && chosen.Positional[n].Enum != "" {
		return chosen.Positional[n].EnumSlice()
	}
	return nil
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

// positionsIn returns how many of the words are arguments, neither flags nor their values.
func positionsIn(chosen *kong.Node, words []string) int {
	n := 0
	for i, word := range words {
		if !strings.HasPrefix(word, "-") && (i == 0 || valueFlag(chosen, words[i-1]) == nil) {
			n++
		}
	}
	return n
}
