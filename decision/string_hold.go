package decision

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/workflow"
)

// String implements fmt.Stringer.
func (d StartChild) String() string {
	return say("start-child", d.Token).field("attempt", fmt.Sprint(d.Attempt)).field("definition", short(d.Definition)).
		json("input", d.Input).time("due", d.Due).String()
}

// short returns the beginning of a hash.
func short(hash string) string { return hash[:min(len(hash), 8)] }

// String implements fmt.Stringer.
func (d EndChild) String() string {
	return say("end-child", d.Token).field("status", d.Status.String()).failure(d.Failure).String()
}

// String implements fmt.Stringer.
func (d RequestApproval) String() string {
	return say("request-approval", d.Token).field("attempt", fmt.Sprint(d.Attempt)).time("due", d.Due).String()
}

// String implements fmt.Stringer.
func (d AddVote) String() string {
	return say("add-vote", d.Token).field("by", d.Vote.By).flag("approved", d.Vote.Approved).json("data", d.Vote.Data).String()
}

// String implements fmt.Stringer.
func (d DecideApproval) String() string {
	return say("decide-approval", d.Token).flag("approved", d.Approved).field("cause", d.Cause).String()
}

// String implements fmt.Stringer.
func (d AwaitEvent) String() string {
	return say("await-event", d.Token).field("names", names(d.Names)).time("due", d.Due).time("limit", d.Limit).String()
}

// String implements fmt.Stringer.
func (d KeepSignal) String() string {
	return say("keep-signal", int64(d.Seq)).field("name", d.Name).field("id", d.ID).json("payload", d.Payload).
		time("due", d.Due).flag("done", d.Done).String()
}

// String implements fmt.Stringer.
func (d TakeSignal) String() string {
	return say("take-signal", d.Token).field("name", d.Name).field("signal", fmt.Sprint(int64(d.Seq))).String()
}

// String implements fmt.Stringer.
func (d LoseSignal) String() string {
	return say("lose-signal", int64(d.Seq)).field("name", d.Name).String()
}

// String implements fmt.Stringer.
func (d RejectSignal) String() string {
	return say("reject-signal", d.Token).field("name", d.Name).failure(&d.Failure).String()
}

// String implements fmt.Stringer.
func (d AwaitLock) String() string { return say("await-lock", d.Token).String() }

// String implements fmt.Stringer.
func (d TakeLock) String() string { return say("take-lock", d.Token).field("lock", d.Lock).String() }

// String implements fmt.Stringer.
func (d HoldToken) String() string { return say("hold-token", d.Token).String() }

// String implements fmt.Stringer.
func (d AwaitJoin) String() string {
	return say("await-join", d.Token).field("via", string(d.Via)).String()
}

// String implements fmt.Stringer.
func (d FireJoin) String() string {
	return say("fire-join").field("node", string(d.Node)).field("tokens", tokensText(d.Tokens)).String()
}

func tokensText(ids []workflow.TokenID) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return strings.Join(out, ",")
}

// String implements fmt.Stringer.
func (d CancelTokens) String() string {
	l := say("cancel-tokens").scope(d.Scope).field("nodes", names(d.Nodes))
	if d.Except != 0 {
		l.field("except", d.Except.String())
	}
	return l.String()
}

// String implements fmt.Stringer.
func (d AddBranch) String() string {
	return say("add-branch", d.Group).field("token", d.Token.String()).json("item", d.Item).String()
}

// String implements fmt.Stringer.
func (d CloseGroup) String() string { return say("close-group", d.Group).String() }

// String implements fmt.Stringer.
func (d ArmGroup) String() string {
	return say("arm-group", d.Group).time("due", d.Due).flag("off", d.Due.IsZero()).String()
}

// String implements fmt.Stringer.
func (d ListErrors) String() string {
	return say("list-errors", d.Group).scope(d.Scope).field("target", pathText(d.Path, d.Append)).value("value", d.Value).String()
}

// String implements fmt.Stringer.
func (d PauseRun) String() string { return say("pause-run").flag("parent", d.Parent).String() }

// String implements fmt.Stringer.
func (d PatchRun) String() string {
	w := say("patch-run").field("revision", strconv.Itoa(d.Revision)).value("definition", d.Definition).time("due", d.Due)
	for _, x := range d.Steps {
		w = w.field("step", fmt.Sprintf("%s:%d/%d", x.Node, x.Live, x.Resolved))
	}
	return w.String()
}

// String implements fmt.Stringer.
func (d StageArtifacts) String() string {
	w := say("stage-artifacts", d.Token)
	for _, a := range d.Artifacts {
		w = w.field("artifact", fmt.Sprintf("%s:%d", a.Name, a.Size))
	}
	return w.String()
}

// String implements fmt.Stringer.
func (d StartStep) String() string { return say("start-step").field("node", string(d.Node)).String() }

// String implements fmt.Stringer.
func (d EndStep) String() string {
	return say("end-step").field("node", string(d.Node)).field("taken", names(d.Taken)).flag("all", d.All).flag("skipped", d.Skipped).String()
}

// String implements fmt.Stringer.
func (d DeferFailure) String() string { return say("defer-failure").failure(&d.Failure).String() }
