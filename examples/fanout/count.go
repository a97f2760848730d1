package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"go/scanner"
	"go/token"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A tally is what one file comes to: the result of a count task.
type tally struct {
	Lines       int            `json:"lines"`
	Words       int            `json:"words"`
	Bytes       int            `json:"bytes"`
	SHA256      string         `json:"sha256"`
	Identifiers map[string]int `json:"identifiers"` // the most frequent ones
}

// A report is what all files come to: the result of the reduce task.
type report struct {
	Files       int          `json:"files"`
	Lines       int          `json:"lines"`
	Words       int          `json:"words"`
	Bytes       int          `json:"bytes"`
	SHA256      string       `json:"sha256"` // of the hashes of the files, in order
	Identifiers []identifier `json:"identifiers"`
}

type identifier struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// A counter performs the tasks, and knows how many files of each run this
// process has begun to count.
type counter struct {
	dieAt int // at which file of a run to kill this process; 0: never

	mu    sync.Mutex
	begun map[workflow.RunID]int
}

func (c *counter) handlers() pawl.Handlers {
	return pawl.Handlers{"count": pawl.Typed(c.countFile), "reduce": pawl.Typed(reduce)}
}

// A file is the input of a count task.
type file struct {
	Path  string
	Share int // of the list, in bytes
}

// countFile is the task of a branch. It depends on nothing but its input, so it
// does no harm that it is called again after a crash.
func (c *counter) countFile(ctx context.Context, in file) (tally, error) {
	c.begin(pawl.TaskFrom(ctx).Run)
	data, err := os.ReadFile(in.Path)
	if err != nil {
		return tally{}, err
	}
	sum := sha256.Sum256(data)
	return tally{
		Lines: bytes.Count(data, []byte("\n")), Words: len(bytes.Fields(data)), Bytes: len(data),
		SHA256: hex.EncodeToString(sum[:]), Identifiers: frequent(identifiers(data), in.Share),
	}, nil
}

func (c *counter) begin(run workflow.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun[run]++
	if c.begun[run] == c.dieAt {
		die() // and never return
	}
}

func (c *counter) counted(run workflow.RunID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun[run]
}

// identifiers counts the identifiers of a Go source. In a text that is not Go
// it counts the words that the scanner takes for identifiers.
func identifiers(source []byte) map[string]int {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(file, source, nil, 0)
	counts := map[string]int{}
	for {
		_, tok, name := s.Scan()
		if tok == token.EOF {
			return counts
		}
		if tok == token.IDENT {
			counts[name]++
		}
	}
}

// frequent returns the most frequent identifiers, as many as fit into so many
// bytes of JSON.
func frequent(counts map[string]int, share int) map[string]int {
	most := map[string]int{}
	for _, id := range ranking(counts) {
		share -= len(strconv.Quote(id.Name)) + len(":,") + len(strconv.Itoa(id.Count))
		if share < 0 {
			break
		}
		most[id.Name] = id.Count
	}
	return most
}

func ranking(counts map[string]int) []identifier {
	ids := make([]identifier, 0, len(counts))
	for name, n := range counts {
		ids = append(ids, identifier{name, n})
	}
	slices.SortFunc(ids, func(a, b identifier) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Name, b.Name))
	})
	return ids
}

// reduce is the task after the join. It gets the tallies of all files.
func reduce(_ context.Context, in struct{ Counts []tally }) (report, error) {
	r := report{Files: len(in.Counts)}
	all := map[string]int{}
	hash := sha256.New()
	for _, c := range in.Counts {
		r.Lines += c.Lines
		r.Words += c.Words
		r.Bytes += c.Bytes
		hash.Write([]byte(c.SHA256))
		for name, n := range c.Identifiers {
			all[name] += n
		}
	}
	r.SHA256 = hex.EncodeToString(hash.Sum(nil))
	r.Identifiers = ranking(all)
	r.Identifiers = r.Identifiers[:min(len(r.Identifiers), 20)]
	return r, nil
}

// die kills this process as kill -9 does: no deferred call runs, no file is
// closed.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}
