package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// logKeys are the keys of lines of the log that stand where the line is told, beside those of an attempt, which tasklog.Place has: a reader
// who looks for a run, an error or a caller looks for one key.
var logKeys = map[string]string{
	"run": "id of a run", "workflow": "name of a definition", "version": "of that", "by": "who has made a call", "reason": "why", "error": "what went wrong",
	"times": "how often since the last line", "runs": "how many", "active": "runs in memory", "again": "after how long it is tried again", "since": "an instant",
	"schedule": "id", "scheduled": "instant of a schedule", "worker": "id", "key": "of an attempt, or of an outcome", "pool": "name", "tasks": "how many", "task": "type of a task", "queued": "how many tasks", "workers": "how many",
	"stack": "of a panic", "problem": "of a definition",
	"address": "of a caller", "requests": "how many", "subject": "of a message", "stream": "of NATS", "consumer": "of NATS",
	"cluster_node": "name of a node of a cluster", "ahead": "of a clock", "directory": "path", "file": "path", "files": "how many", "mode": "of a directory", "blob": "hash", "entries": "of the log", "last": "of them", "events": "how many",
}

// ofAttempt are the keys of an attempt: a line has all of them, or none.
var ofAttempt = []string{"node", "token", "attempt"}

// loggers are the names under which code has a logger, and lines the functions that tell it, by which argument is the first key.
var (
	loggers = []string{"Logger", "logger", "log"}
	lines   = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "Log": 3}
	faulty  = map[string]int{"OfRun": 4, "FullDisk": 1, "tellLoss": 3}
)

// Every line of the log has the keys of all others for what it tells: no other name for a run, an error or a caller, and for an
// attempt those of tasklog.Place.
func TestKeysOfTheLog(t *testing.T) {
	found := map[string]int{}
	count := 0
	for _, root := range []string{".", "nats", "pg", "pawlsql"} {
		all := loadFolder(t, root)
		for _, p := range all.packages {
			if strings.HasPrefix(p.path, forTests) || strings.HasPrefix(p.path, "cmd") || strings.HasPrefix(p.path, "bench") || strings.HasPrefix(p.path, "examples") {
				continue
			}
			for _, f := range p.files {
				ast.Inspect(f.File, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					from, ok := tellsLine(call)
					if !ok {
						return true
					}
					count++
					for _, key := range keysOf(call, from) {
						found[key]++
						if at := all.fset.Position(call.Pos()); slices.Contains(ofAttempt, key) {
							t.Errorf("%s: %s: take tasklog.Place.Args, which has all keys of an attempt", at, key)
						} else if logKeys[key] == "" {
							t.Errorf("%s: %s: is there no key for it?", at, key)
						}
					}
					return true
				})
			}
		}
	}
	require.Greater(t, count, 50)
	for _, key := range []string{"run", "error", "by", "worker"} {
		require.NotZero(t, found[key], key)
	}
	for _, key := range slices.Sorted(maps.Keys(logKeys)) {
		if found[key] == 0 {
			t.Errorf("nobody has the key %s", key)
		}
	}
}

// tellsLine reports whether a call tells the log a line, and which of its arguments is the first key.
func tellsLine(call *ast.CallExpr) (from int, ok bool) {
	f, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod {
		return 0, false
	}
	if from, ok = faulty[f.Sel.Name]; ok {
		return from, true
	}
	if from, ok = lines[f.Sel.Name]; !ok {
		return 0, false
	}
	return from, slices.Contains(loggers, lastName(f.X))
}

// lastName returns the last name of an expression: Logger of a.o.Logger, and of tasklog.Logger(ctx).
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.CallExpr:
		return lastName(x.Fun)
	}
	return ""
}

// keysOf returns the keys that stand in a call, also in one of append.
func keysOf(call *ast.CallExpr, from int) (keys []string) {
	args := call.Args[min(from, len(call.Args)):]
	if len(args) == 1 {
		inner, ok := args[0].(*ast.CallExpr)
		if !ok || lastName(inner.Fun) != "append" {
			return nil
		}
		args = inner.Args[1:]
		if first, ok := inner.Args[0].(*ast.CompositeLit); ok {
			args = first.Elts
		}
	}
	for i := 0; i < len(args); i += 2 {
		if lit, ok := args[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			key, _ := strconv.Unquote(lit.Value)
			keys = append(keys, key)
		}
	}
	return keys
}
