package state

// An Act says who has made a call of the engine, and why. It is zero in the message of a call that was made in
// nobody's name. Every message that a caller of the engine may send carries one, but for Heartbeat, so that the
// journal answers later who did what.
type Act struct {
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
}
