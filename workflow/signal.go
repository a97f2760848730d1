package workflow

import "time"

// A Signal is an event for a token of the run that waits for its name. It goes only to the token that has waited longest
// among those whose match holds; if none waits, it is kept.
type Signal struct {
	Name      string        `json:"name"`
	ID        string        `json:"id,omitzero"` // taken once per run; "" is another signal each time
	Payload   any           `json:"payload,omitzero"`
	Transient bool          `json:"transient,omitzero"` // lost if no token waits
	TTL       time.Duration `json:"ttl,omitzero"`       // how long it is kept; 0 is for ever
	Early     bool          `json:"early,omitzero"`     // accepted even if no node of the definition waits for the name: a patch will add one
}

// A Ballot is one vote on an approval. It names the token, or the node if one approval is open there. Another vote
// of the same person on the same approval is refused.
type Ballot struct {
	ID       string  `json:"id,omitzero"` // taken once per run, so that the vote may be repeated
	Token    TokenID `json:"token,omitzero"`
	Node     NodeID  `json:"node,omitzero"`
	By       string  `json:"by"` // who votes, always spelled alike: see pawl.As; "" is the name given to As
	Approved bool    `json:"approved"`
	Comment  string  `json:"comment,omitzero"`
	Data     any     `json:"data,omitzero"`
}
