package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
	"github.com/pawl-run/pawl/workflow"
)

// makeSealed makes an engine directory with the run r, whose values are sealed, and key
// files: the one to read it, other with another key, both with that and the right one, and
// wrong with another key of the same id.
func makeSealed(ts *testscript.TestScript, _ bool, args []string) {
	line := func(id string, b byte) string {
		return id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, aesgcm.KeySize)) + "\n"
	}
	for name, text := range map[string]string{
		args[1]: line("k1", 1), "other": line("k2", 2), "both": line("k2", 2) + line("k1", 1), "wrong": line("k1", 3),
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
	keys, err := aesgcm.ReadKeyFile(ts.MkAbs(args[1]))
	ts.Check(err)
	ctx := context.Background()
	engine, err := pawl.Open(ctx, ts.MkAbs(args[0]), pawl.Options{Codec: keys, Executor: pawl.Handlers{"work": func(_ context.Context, t pawl.Task) (any, error) {
		return t.Input, nil
	}}})
	ts.Check(err)
	def, err := workflow.ParseYAML([]byte(oneStep))
	ts.Check(err)
	_, err = engine.Run(ctx, workflow.Run{ID: "r", Definition: def}, map[string]any{"file": "secret"})
	ts.Check(err)
	ts.Check(engine.Close(ctx))
}
