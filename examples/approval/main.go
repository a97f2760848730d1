// Approval asks people: two of three must agree to a purchase. One is bought,
// one is refused, one goes to the director because nobody answers in time, and
// to one the director does not answer either.
//
//	go run ./examples/approval
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

// The definition: read approval.yaml next, it is the point of this example.
//
//go:embed approval.yaml
var document []byte

// soon stands for the day that people have, where nobody is going to answer.
const soon = 50 * time.Millisecond

// definition returns the definition, with a short day for those who are silent.
func definition(silent ...workflow.NodeID) (*workflow.Definition, error) {
	def, err := workflow.ParseYAML(document)
	if err != nil {
		return nil, err
	}
	for _, id := range silent {
		for i := range def.Nodes {
			if def.Nodes[i].ID == id {
				def.Nodes[i].Timeout = soon
			}
		}
	}
	return def, nil
}

// A purchase is one run, and what people say to it.
type purchase struct {
	id     workflow.RunID
	item   string
	silent []workflow.NodeID // who lets the time pass
	asked  workflow.NodeID   // who is asked in the end
	votes  []workflow.Ballot
}

func purchases() []purchase {
	return []purchase{
		{id: "purchase-1", item: "desk", asked: "committee", votes: []workflow.Ballot{
			{By: "ann", Approved: true, Comment: "the old one is broken"},
			{By: "ann", Approved: true},  // nobody votes twice
			{By: "bob", Approved: true},  // the second approval decides
			{By: "cid", Approved: false}, // too late
		}},
		{id: "purchase-2", item: "yacht", asked: "committee", votes: []workflow.Ballot{
			{By: "ann", Approved: false, Comment: "there is no lake"},
			{By: "bob", Approved: true, Comment: "it is on sale"},
			{By: "cid", Approved: false},
		}},
		{id: "purchase-3", item: "lamp", silent: []workflow.NodeID{"committee"}, asked: "director", votes: []workflow.Ballot{
			{By: "dora", Approved: true, Comment: "let there be light"},
		}},
		{id: "purchase-4", item: "sofa", silent: []workflow.NodeID{"committee", "director"}, asked: "director"},
	}
}

// buy is called when the purchase is approved.
func buy(_ context.Context, in struct{ Item string }) (string, error) {
	return in.Item + " bought", nil
}

func run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{"buy": pawl.Typed(buy)}})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)

	for _, p := range purchases() {
		fmt.Fprintf(stdout, "%s: a %s\n", p.id, p.item)
		def, err := definition(p.silent...)
		if err != nil {
			return err
		}
		if err := engine.Start(ctx, workflow.Run{ID: p.id, Definition: def}, map[string]string{"item": p.item}); err != nil {
			return err
		}
		if err := vote(ctx, engine, p, stdout); err != nil {
			return err
		}
		outcome, err := engine.Wait(ctx, p.id)
		if err != nil {
			return err
		}
		if err := show(stdout, outcome); err != nil {
			return err
		}
	}
	return nil
}

// vote waits until the approval is open, as a web page or a chat would, and
// gives the votes. The engine counts them; who may vote is for its caller to
// say.
func vote(ctx context.Context, engine *pawl.Engine, p purchase, stdout io.Writer) error {
	if err := opened(ctx, engine, p, stdout); err != nil {
		return err
	}
	for _, b := range p.votes {
		err := engine.Vote(ctx, pawl.Target{Run: p.id, Node: p.asked}, b)
		switch {
		case errors.Is(err, pawl.ErrAlreadyVoted):
			fmt.Fprintf(stdout, "  %s cannot vote twice\n", b.By)
		case errors.Is(err, pawl.ErrNotLive), errors.Is(err, pawl.ErrEnded): // it is decided, and perhaps bought already
			fmt.Fprintf(stdout, "  %s is too late\n", b.By)
		case err != nil:
			return err
		}
	}
	return nil
}

// opened shows who is asked for an approval, until it is the one that matters.
func opened(ctx context.Context, engine *pawl.Engine, p purchase, stdout io.Writer) error {
	for e, err := range engine.Events(ctx, p.id, pawl.EventsOptions{Follow: true}) {
		if err != nil {
			return err
		}
		if e.Type != workflow.EventApprovalRequested {
			continue
		}
		fmt.Fprintf(stdout, "  %s: %v\n", e.Node, e.Data["message"])
		if e.Node == p.asked {
			return nil
		}
	}
	return fmt.Errorf("run %s has ended and has not asked the %s", p.id, p.asked)
}

// show prints the votes, which are part of the output of an approval, and what
// came of them.
func show(w io.Writer, outcome workflow.Outcome) error {
	if err := outcome.Err(); err != nil {
		return err
	}
	var out struct {
		By       string
		Decision struct {
			Approved bool
			Cause    string
			Votes    []workflow.Ballot
		}
		Outcome string
	}
	text, err := json.Marshal(outcome.Output)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return err
	}
	for _, v := range out.Decision.Votes {
		line := fmt.Sprintf("  %-4s %-3s %s", v.By, map[bool]string{true: "yes", false: "no"}[v.Approved], v.Comment)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	verdict := map[bool]string{true: "approved", false: "rejected"}[out.Decision.Approved]
	fmt.Fprintf(w, "  => %s by %s of the %s: %s\n", verdict, out.Decision.Cause, out.By, out.Outcome)
	return nil
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-approval-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
