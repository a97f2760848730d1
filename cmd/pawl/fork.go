package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

var forkVerb = verb{
	name:    "fork",
	help:    "Make a new run of another one, as that was after one of its records.",
	example: []string{"pawl fork order-42 order-42b --at 12 -m trial", "pawl fork order-42 order-42b --node ship -m rerun --dry-run", `pawl fork order-42 order-42b --at 5 --result 'ship={"parcel":7}' -m shipped`},
	command: func() command { return new(forkCommand) },
}

// A forkCommand forks a run.
type forkCommand struct {
	Run      string   `arg:"" help:"The id of the run."`
	To       string   `arg:"" name:"new-run" help:"The id of the new run."`
	At       *int64   `xor:"place" placeholder:"N" help:"After this record; the last one after which the run had not ended, if this is not given."`
	Node     string   `xor:"place" placeholder:"NODE" help:"Before this node, or this thread, as t5, was performed last."`
	InFlight string   `enum:"again,park" default:"again" help:"Tasks that were out: again sends them again, park leaves them to an operator."`
	Result   []string `sep:"none" placeholder:"NODE=JSON" help:"What the task that was out at NODE, or of the thread, as t5, has come to; it is not sent again."`
	Again    bool     `help:"With --node: do again what has completed and cannot be kept. Without it, such a fork is refused."`
	DryRun   bool     `help:"Say what the new run would be. Nothing is changed."`
	By       string   `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason   string   `short:"m" required:"" placeholder:"TEXT" help:"Why, in one line. The journal keeps it."`
	Offline  bool     `help:"If no engine has the directory open, commit this now, and send nothing."`
	dirFlag
}

// runCommand forks the run, or says what a fork of it would decide. It puts its flags into an actFlag, so that withActor says where a fork may be
// made. Where a node is named, the engine performs that node again (Rerun); else At chooses the record.
func (c *forkCommand) runCommand(ctx context.Context, con *console) error {
	at, err := recordOf(c.At)
	if err != nil {
		return err
	}
	if c.Again && c.Node == "" {
		return errors.New("--again is of --node: a fork after a record does nothing before it again")
	}
	a := actFlag{By: c.By, Reason: c.Reason, DryRun: c.DryRun, Offline: c.Offline, dirFlag: c.dirFlag}
	return a.withActor(ctx, con, func(e *reached) error {
		f := api.Fork{To: workflow.RunID(c.To), At: at, Again: c.Again, By: a.By, Reason: c.Reason}
		if c.Node != "" {
			at, err := e.targetIn(ctx, c.Run, c.Node)
			if err != nil {
				return err
			}
			f.Node, f.Token = at.Node, at.Token
		}
		if c.InFlight == "park" {
			f.InFlight = workflow.InFlightPark
		}
		if f.Results, err = c.readResults(ctx, e); err != nil {
			return err
		}
		if c.DryRun {
			done, err := e.DryRunFork(ctx, workflow.RunID(c.Run), f)
			if err == nil && !c.JSON {
				con.printSentAgain(done.SentAgain)
			}
			return a.printDryRun(con, e, f.To, done, err)
		}
		s, err := e.Fork(ctx, workflow.RunID(c.Run), f)
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, s)
			return nil
		}
		con.printLine("%s is %s after record %d", c.To, c.Run, s.ForkedFrom.Record)
		con.printSentAgain(s.SentAgain)
		con.printSource(a.sourceText(e))
		return nil
	})
}

// printSentAgain names the nodes whose tasks and child runs are sent again, beside the one that is to be.
func (con *console) printSentAgain(nodes []workflow.NodeID) {
	if len(nodes) == 0 {
		return
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = string(n)
	}
	con.printLine("sends again: %s", strings.Join(names, ", "))
}

// recordOf returns the record that --at names; 0 if it is not given.
func recordOf(at *int64) (int64, error) {
	switch {
	case at == nil:
		return 0, nil
	case *at < 1:
		return 0, fmt.Errorf("--at %d: records count from 1", *at)
	}
	return *at, nil
}

// readResults reads what tasks have come to: NODE=JSON, or tN=JSON of a token. The engine is asked only for words that may be tokens.
func (c *forkCommand) readResults(ctx context.Context, e *reached) (out []api.ForkResult, err error) {
	for _, text := range c.Result {
		place, output, ok := strings.Cut(text, "=")
		if !ok || place == "" || output == "" { // as of a variable of a shell that is not set
			return nil, fmt.Errorf("--result %s: it is not NODE=JSON", text)
		}
		value, err := jsonText("--result "+place, output)
		if err != nil {
			return nil, err
		}
		at, err := e.targetIn(ctx, c.Run, place)
		if err != nil {
			return nil, err
		}
		out = append(out, api.ForkResult{Token: at.Token, Node: at.Node, Output: value})
	}
	return out, nil
}

var simulateVerb = verb{
	name: "simulate",
	help: "Say what would become of a run by acts, time and results of its tasks. Nothing is changed.",
	example: []string{
		`pawl simulate order-42 --vote approve=yes --by bob --then 'ship={"ok":true}'`,
		`pawl simulate order-42 --retry charge --fail charge=http_503 --after 2h`,
	},
	command: func() command { return new(simulateCommand) },
}

// A simulateCommand tries on a copy of a run what its flags say. Flags of type triedFlags are acts, done one after the other
// in the order of the command line.
type simulateCommand struct {
	Run      string     `arg:"" help:"The id of the run, or DIR:RUN or FILE:RUN."`
	Vote     triedFlags `placeholder:"NODE=ANSWER" help:"Somebody votes yes or no on the approval at NODE. These acts are tried one after the other, in the order in which they stand."`
	Signal   triedFlags `placeholder:"NAME[=JSON]" help:"The run gets an event."`
	After    triedFlags `placeholder:"DURATION" help:"Time passes, as 2h30m: timers, timeouts and retries come."`
	Complete triedFlags `placeholder:"NODE=JSON" help:"The task that runs at NODE comes to this output."`
	Fail     triedFlags `placeholder:"NODE=CODE" help:"The task that runs at NODE fails with this code."`
	Retry    triedFlags `placeholder:"NODE" help:"The task that has used up its attempts at NODE is tried again."`
	Skip     triedFlags `placeholder:"NODE[=JSON]" help:"The task at NODE is completed by an operator, with this output."`
	Add      triedFlags `placeholder:"GROUP[=JSON]" help:"The fan-out GROUP gets a branch, for this element."`
	Close    triedFlags `placeholder:"GROUP" help:"The fan-out GROUP takes no more branches."`
	Raise    triedFlags `placeholder:"NAME=NUMBER" help:"The limit NAME of what results may report is raised."`

	Then      []string `sep:"none" placeholder:"NODE=JSON" help:"The output of every task at NODE that is out or comes to be: each is performed as soon as it is dispatched."`
	ThenError []string `sep:"none" placeholder:"NODE=CODE" help:"Every such task fails with this code."`

	At     int64  `placeholder:"N" help:"Try it on the run as it was after this record, from 1."`
	By     string `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason string `short:"m" placeholder:"TEXT" help:"Why."`
	dirFlag
}

// A triedFlag is a flag that is an act, as it stands in the command line. kong gives each flag to the field of its name, and so loses the order
// between --vote and --after: left brings it back, as a flag further to the left has more words behind it.
type triedFlag struct {
	name, text string
	left       int // how many words stand behind it: by that, flags of different names are put in order
}

// triedFlags are those of one name.
type triedFlags []triedFlag

// Decode implements kong.MapperValue.
func (f *triedFlags) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("value", &text); err != nil {
		return err
	}
	*f = append(*f, triedFlag{ctx.Value.Name, text, ctx.Scan.Len()})
	return nil
}

// String returns the flag as it was typed.
func (f *triedFlag) String() string { return fmt.Sprintf("--%s %s", f.name, f.text) }

// errNothingTried says that the command line has nothing to try.
var errNothingTried = errors.New("say what is to be tried: --vote, --signal, --after, --complete, --fail, --retry, --skip, --add, --close, --raise, --then or --then-error")

// runCommand tries it, and says what would be decided and how the run would stand. Everything that the command line alone can tell is checked before
// an engine is asked; then words that are numbers are looked up, as only the run's definition says whether 5 is a node.
func (c *simulateCommand) runCommand(ctx context.Context, con *console) error {
	tried := c.inOrder()
	if len(tried) == 0 && c.Then == nil && c.ThenError == nil {
		return errNothingTried
	}
	if c.At < 0 {
		return fmt.Errorf("--at: %d is no record: they count from 1", c.At)
	}
	results, err := c.readResults()
	if err != nil {
		return err
	}
	tries := make([]api.Operation, len(tried))
	for i := range tried {
		tries[i] = api.Operation{By: userName(c.By), Reason: c.Reason}
		if tries[i].Act, err = tried[i].readAct(); err != nil {
			return err
		}
	}
	c.splitName(con, &c.Run)
	return c.withEngine(ctx, con, func(e *reached) error {
		for i := range tries {
			if t, ok := acts.TargetOf(tries[i].Act); ok {
				if t, err = e.targetIn(ctx, c.Run, string(t.Node)); err != nil {
					return err
				}
				tries[i].Act = acts.At(tries[i].Act, t)
			}
		}
		return con.printTrial(ctx, e, workflow.RunID(c.Run), api.Simulate{At: c.At, Acts: tries, Results: results}, c.JSON, e.source)
	})
}

// printTrial tries acts on a copy of a run and writes what would become of it. Verbs with several
// acts on one run, as add with --dry-run, print their dry run by it too.
func (con *console) printTrial(ctx context.Context, e *reached, run workflow.RunID, body api.Simulate, asJSON bool, source string) error {
	done, err := e.Simulate(ctx, run, body)
	if err != nil {
		return err
	}
	if asJSON {
		con.writeLine(true, done)
		return nil
	}
	con.printFuture(run, done.Future)
	con.printSource(source)
	return nil
}

// inOrder returns the acts in the order of the command line.
func (c *simulateCommand) inOrder() []triedFlag {
	all := slices.Concat(c.Vote, c.Signal, c.After, c.Complete, c.Fail, c.Retry, c.Skip, c.Add, c.Close, c.Raise)
	slices.SortFunc(all, func(a, b triedFlag) int { return cmp.Compare(b.left, a.left) })
	return all
}

// readResults returns what the tasks come to, by their nodes. A node has one result for all of its
// tasks, as they cannot be told apart before they exist.
func (c *simulateCommand) readResults() (map[workflow.NodeID]api.Result, error) {
	out := map[workflow.NodeID]api.Result{}
	for _, text := range c.Then {
		f := triedFlag{name: "then", text: text}
		node, value, err := f.nodeAndValue()
		if err != nil {
			return nil, err
		}
		if err := addResult(out, &f, node, api.Result{Output: value}); err != nil {
			return nil, err
		}
	}
	for _, text := range c.ThenError {
		f := triedFlag{name: "then-error", text: text}
		node, code, err := f.nodeAndText("CODE")
		if err != nil {
			return nil, err
		}
		if err := addResult(out, &f, node, api.Result{Code: code}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func addResult(to map[workflow.NodeID]api.Result, f *triedFlag, node string, r api.Result) error {
	if _, ok := to[workflow.NodeID(node)]; ok {
		return fmt.Errorf("%v: tasks at %s come to one result: let --complete and --fail end them one by one", f, node)
	}
	to[workflow.NodeID(node)] = r
	return nil
}

// readAct returns the act that a flag is. Its node is the word that names the token. Only the form
// of the flag is checked here: whether an act fits the run as it stands by then, the copy says.
func (f *triedFlag) readAct() (pawl.Act, error) {
	at := func(node string) pawl.Target { return pawl.Target{Node: workflow.NodeID(node)} }
	switch f.name {
	case "vote":
		node, answer, err := f.nodeAndText("yes or NODE=no")
		if err == nil && answer != "yes" && answer != "no" {
			err = fmt.Errorf("%v: the answer is %q, not yes or no", f, answer)
		}
		return pawl.Vote{Target: at(node), Approved: answer == "yes"}, err
	case "signal":
		name, payload, err := f.nameAndMaybeValue("NAME")
		return pawl.Signal{Name: name, Payload: payload}, err
	case "after":
		d, err := time.ParseDuration(f.text)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%v: it is no time that passes, such as 2h30m or 10s", f)
		}
		return pawl.Elapse{Elapse: d}, nil
	case "complete":
		node, output, err := f.nodeAndValue()
		return pawl.Complete{Target: at(node), Output: output}, err
	case "fail":
		node, code, err := f.nodeAndText("CODE")
		return pawl.Fail{Target: at(node), Code: code}, err
	case "retry":
		return pawl.Retry{Target: at(f.text)}, f.checkName("NODE", f.text)
	case "skip":
		node, output, err := f.nameAndMaybeValue("NODE")
		return pawl.Skip{Target: at(node), Output: output}, err
	case "add":
		group, item, err := f.nameAndMaybeValue("GROUP")
		return pawl.AddBranch{Group: group, Item: item}, err
	case "raise":
		name, number, _ := strings.Cut(f.text, "=")
		limit, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return nil, fmt.Errorf("%v: it is not NAME=NUMBER", f)
		}
		return pawl.Raise{Meta: map[string]float64{name: limit}}, nil
	case "close":
		return pawl.CloseGroup{Group: f.text}, f.checkName("GROUP", f.text)
	}
	panic("pawl simulate: no act is called " + f.name)
}

func (f *triedFlag) checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("--%s: it names no %s", f.name, what)
	}
	return nil
}

// nodeAndText splits NODE=TEXT; neither part may be empty. It cuts at the first =, so a text may have more of them, and the id of a node none.
func (f *triedFlag) nodeAndText(what string) (node, text string, err error) {
	node, text, _ = strings.Cut(f.text, "=")
	if node == "" || text == "" {
		return "", "", fmt.Errorf("%v: it is not NODE=%s", f, what)
	}
	return node, text, nil
}

// nodeAndValue splits NODE=JSON.
func (f *triedFlag) nodeAndValue() (node string, value json.RawMessage, err error) {
	node, text, err := f.nodeAndText("JSON")
	if err == nil {
		value, err = jsonText("--"+f.name+" "+node, text)
	}
	return node, value, err
}

// nameAndMaybeValue splits NAME or NAME=JSON. "NAME=" without a value is refused, as the user probably meant something by the =.
func (f *triedFlag) nameAndMaybeValue(what string) (name string, value json.RawMessage, err error) {
	name, text, given := strings.Cut(f.text, "=")
	if err = f.checkName(what, name); err == nil && given && text == "" {
		err = fmt.Errorf("%v: behind the = stands no JSON", f)
	}
	if err == nil {
		value, err = jsonText("--"+f.name+" "+name, text)
	}
	return name, value, err
}
