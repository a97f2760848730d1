package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"

	"github.com/pawl-run/pawl"
)

// A tally is the result of a count task.
type tally struct {
	Lines int    `json:"lines"` // in the files of the package
	Chain int    `json:"chain"` // in the longest chain of imports that ends here, this package included
	After string `json:"after"` // the package before this one in that chain; "" if this is the first
}

// A summary is the result of the report task.
type summary struct {
	Packages int    `json:"packages"`
	Lines    int    `json:"lines"`
	Critical []link `json:"critical"` // the longest chain of all, from its first package on
}

type link struct {
	Package string `json:"package"`
	Lines   int    `json:"lines"`
}

// A source is the input of a count task: a package, and what is known of its imports.
type source struct {
	Package string
	Files   []string
	Imports map[string]tally
}

// countWords counts the lines of a package and adds them to the longest of the
// chains that lead to it, which its imports know already.
func countWords(_ context.Context, in source) (tally, error) {
	var out tally
	for _, name := range in.Files {
		text, err := os.ReadFile(name)
		if err != nil {
			return out, pawl.Permanent(err)
		}
		out.Lines += bytes.Count(text, []byte("\n"))
	}
	before, after := longest(in.Imports)
	out.Chain, out.After = before+out.Lines, after
	return out, nil
}

// longest returns the longest chain and its last package, the first by name
// among equals.
func longest(all map[string]tally) (chain int, path string) {
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if path == "" || all[p].Chain > chain {
			chain, path = all[p].Chain, p
		}
	}
	return chain, path
}

// summarizePackages is called last, with the tallies of all packages.
func summarizePackages(_ context.Context, in struct{ Packages map[string]tally }) (summary, error) {
	out := summary{Packages: len(in.Packages), Critical: []link{}}
	for _, p := range in.Packages {
		out.Lines += p.Lines
	}
	for _, path := longest(in.Packages); path != ""; path = in.Packages[path].After {
		out.Critical = append(out.Critical, link{path, in.Packages[path].Lines})
	}
	slices.Reverse(out.Critical)
	return out, nil
}
