package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

func TestDescribeMessage(t *testing.T) {
	ann := Act{By: "ann", Reason: "it is \"late\""}
	for want, m := range map[string]Message{
		"": nil,
		"TaskFailed token=t6 attempt=2 failure=http_503: the bank is closed": TaskFailed{Token: 6, Attempt: 2, Failure: workflow.Failure{Code: "http_503", Message: "the bank is closed"}},
		"ChildEnded token=t2 status=completed":                               ChildEnded{Token: 2, Status: workflow.RunCompleted},
		`Ballot node=approve by=ann reason="it is \"late\""`:                 Ballot{Act: ann, Node: "approve", By: "ann"},
		`Ballot node=approve by=bob asked=ann reason="it is \"late\""`:       Ballot{Act: ann, Node: "approve", By: "bob"},
		`Pause by=ann reason="it is \"late\""`:                               Pause{Act: ann},
	} {
		require.Equal(t, want, DescribeMessage(m))
	}
}
