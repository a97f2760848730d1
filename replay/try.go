package replay

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// commandsFor returns the commands that would end the wait of a token, as one would type them: those
// of the command pawl or, for what it has no verb, calls of the engine. There are none if time or
// the run itself ends the wait. The target is the token or, if no other is there, its node.
func commandsFor(s *state.State, t *state.Token, w *Wait, target string) []string {
	command := func(verb string, operands ...string) string {
		words := append([]string{"pawl", verb, shellWord(string(s.Run))}, operands...)
		return strings.Join(append(words, "-m", "REASON"), " ")
	}
	if s.Status == workflow.RunSuspended || t.Status == workflow.Pending && t.Held {
		return []string{command("resume")}
	}
	switch t.Status {
	case workflow.Dispatched:
		return []string{command("skip", target)}
	case workflow.Retrying, workflow.WaitingForOperator:
		return []string{command("retry", target), command("skip", target)}
	case workflow.WaitingForApproval:
		return []string{command("vote", target, "yes")}
	case workflow.WaitingForEvent:
		var out []string
		for _, name := range s.Graph.Node(t.Node).Events() {
			out = append(out, command("signal", shellWord(name)))
		}
		return out
	case workflow.WaitingForChild:
		return []string{fmt.Sprintf("pawl why %s", shellWord(string(w.Child)))}
	case workflow.WaitingForSiblings:
		if w.Hopeless {
			return []string{"Engine.CloseGroup fires the join with what has arrived"}
		}
	case workflow.WaitingForJoin:
		if w.Hopeless {
			return []string{command("patch", "CHANGED.json"), "Engine.CancelNodes ends the wait"}
		}
	case workflow.Pending, workflow.WaitingForTimer, workflow.WaitingForLock,
		workflow.Completed, workflow.Failed, workflow.TimedOut, workflow.Cancelled:
	}
	return nil
}

// shellWord returns a text as one word of a shell.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if text != "" && text[0] != '-' && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
