package replay

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// commandsFor returns the commands that would end the wait of a token, as one would type them: those
// of the command pawl or, for what it has no verb, calls of the engine. There are none if time or
// the run itself ends the wait. The target is the token or, if no other is there, its node.
//
// It is for Wait.Try, which people read and type: ids are quoted for a shell, and words in capitals,
// such as REASON, are to be replaced. A node is named where it is clear, a token by its id where
// several are at the node; addWaits decides that.
func commandsFor(s *state.State, t *state.Token, w *Wait, target string) []string {
	command := func(verb string, operands ...string) string { return actOn(s.Run, verb, operands...) }
	// This comes first, whatever the token waits for: neither it nor the run moves before.
	if s.Status == workflow.RunSuspended || t.Status == workflow.Pending && t.Held {
		return []string{command("resume")}
	}
	switch t.Status {
	case workflow.Dispatched:
		return []string{command("skip", target)}
	case workflow.WaitingForBudget:
		if names := limitsToRaise(s, t); names != nil {
			return []string{command("raise", names...), command("skip", target)}
		}
	case workflow.WaitingForOperator:
		if names := limitsToRaise(s, t); names != nil { // another attempt would be parked again
			return []string{command("raise", names...), command("skip", target)}
		}
		return []string{command("retry", target), command("skip", target)}
	case workflow.Retrying:
		return []string{command("retry", target), command("skip", target)}
	case workflow.WaitingForApproval:
		return []string{command("vote", target, "yes")}
	case workflow.WaitingForEvent:
		var out []string
		for _, name := range s.Graph.Node(t.Node).Events() {
			operands := []string{shellWord(name)}
			if matchesOf(s.Graph.Node(t.Node), name) != nil { // mostly of what the signal brings
				operands = append(operands, "--payload", "JSON")
			}
			out = append(out, command("signal", operands...))
		}
		return out
	case workflow.WaitingForChild:
		return []string{fmt.Sprintf("pawl why %s", shellWord(string(w.Child)))}
	case workflow.WaitingForSiblings:
		if g := s.Group(t.Scope.Group); w.Hopeless || takesMore(g) {
			return []string{command("close", shellWord(g.Name))}
		}
	case workflow.WaitingForJoin:
		if w.Hopeless {
			return []string{command("patch", "CHANGED.json"), command("cancel", "--node", shellWord(string(t.Node)))}
		}
	case workflow.Pending, workflow.WaitingForTimer, workflow.WaitingForLock,
		workflow.Completed, workflow.Failed, workflow.TimedOut, workflow.Cancelled:
	}
	return nil
}

// limitsToRaise returns the operands that raise the limits below which a token has no room for its attempt; nil if it waits for no room, or
// only until others have had theirs. A token that waits has no room beside what others have set aside; one that is parked would not fit without them.
func limitsToRaise(s *state.State, t *state.Token) (operands []string) {
	if !t.Remembered().Short {
		return nil
	}
	taken, needs := s.Reported.Total(), amount.FromFloats(s.Graph.Node(t.Node).Budget)
	if t.Status == workflow.WaitingForBudget {
		taken = taken.Plus(s.Reserved())
	}
	for _, limit := range s.MetaLimits() {
		need, said := needs.Named(limit.Name)
		spent, _ := taken.Named(limit.Name)
		// An attempt that says nothing of a limit needs some room below it, one that says 0 needs none.
		if c := spent.Plus(need).Compare(limit); c > 0 && !need.IsZero() || c >= 0 && !said {
			operands = append(operands, shellWord(limit.Name+"=NUMBER"))
		}
	}
	return operands
}

// actOn returns a command that changes a run.
// It puts -m REASON behind each, since what changes a run should say why in its journal.
func actOn(run workflow.RunID, verb string, operands ...string) string {
	words := append([]string{"pawl", verb, shellWord(string(run))}, operands...)
	return strings.Join(append(words, "-m", "REASON"), " ")
}

// commandsAfter returns what can be done about a token whose failure ended the run: its child run says more, and a fork goes on
// from before it was performed.
func commandsAfter(s *state.State, t *state.Token, child workflow.RunID) (out []string) {
	if child != "" {
		out = append(out, fmt.Sprintf("pawl why %s", shellWord(string(child))))
	}
	place := shellWord(string(t.Node))
	if t.Scope.Group != 0 {
		place = t.ID.String()
	}
	return append(out, actOn(s.Run, "fork", "NEWID", "--node", place))
}

// shellWord returns a text as one word of a shell.
//
// A word that begins with a hyphen would be taken for a flag by many programs; quotes do not prevent
// that, but show it. Ids of runs are the caller's texts and may have anything in them.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if text != "" && text[0] != '-' && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
