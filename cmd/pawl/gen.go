package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pawl-run/pawl/internal/below"
	"github.com/pawl-run/pawl/internal/gocode"
	"github.com/pawl-run/pawl/internal/limits"
)

var genVerb = verb{
	name: "gen",
	help: "Write Go for a definition: its names and types, or the calls that make it.",
	example: []string{
		"pawl gen --go order.yaml -o order.go     # constants, structs, Start: a package to be compiled against",
		"pawl gen --builder order.yaml            # a function that makes it with package build",
	},
	command: func() command { return new(genCommand) },
}

// A genCommand writes Go for a definition.
type genCommand struct {
	File    string `arg:"" name:"definition" help:"A file that holds a definition, in YAML or JSON."`
	Go      bool   `name:"go" xor:"what" required:"" help:"Write a package with the names of nodes, signals, approvals and codes, and structs for what the schemas describe."`
	Builder bool   `xor:"what" required:"" help:"Write a file with a function that makes the definition."`
	Package string `placeholder:"NAME" help:"The name of the package. Without it the one that go generate tells, else it is made of the definition's name."`
	Output  string `short:"o" placeholder:"FILE" help:"Write to this file. With --go it has a line for go generate."`
}

func (c *genCommand) runCommand(_ context.Context, con *console) error {
	data, err := below.ReadFile(c.File, limits.MaxDefinitionBytes, filepath.Dir(c.File), ".")
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	d, err := parseDefinition(c.File, data)
	if err != nil {
		return err
	}
	pkg := cmp.Or(c.Package, os.Getenv("GOPACKAGE")) // which go generate sets
	var text []byte
	if c.Builder {
		text, err = gocode.BuilderPackage(d, pkg)
	} else {
		text, err = gocode.Package(d, gocode.Options{Package: pkg, File: c.fileFromOutput(), Output: c.outputName()})
	}
	if err != nil {
		return err
	}
	if c.Output != "" {
		return markFull(below.WriteOutput(c.Output, text, c.File))
	}
	_, _ = con.Out.Write(text) // finish tells the error
	return nil
}

// fileFromOutput returns the path of the definition as go generate finds it, which works in the folder of the file that is
// written.
func (c *genCommand) fileFromOutput() string {
	if c.Output != "" {
		if path, err := filepath.Rel(filepath.Dir(c.Output), c.File); err == nil {
			return filepath.ToSlash(path)
		}
	}
	return filepath.Base(c.File)
}

func (c *genCommand) outputName() string {
	if c.Output == "" {
		return ""
	}
	return filepath.Base(c.Output)
}

// spellFlags returns the words of a command line with -go, as go's own flags are written, in place of --go.
func spellFlags(words []string) []string {
	if len(words) == 0 || words[0] != genVerb.name {
		return words
	}
	words = slices.Clone(words)
	for i, word := range words {
		if word == "-go" {
			words[i] = "--go"
		}
	}
	return words
}
