package workflow

// An Artifact is a named blob that a task hands over with its result. It becomes an output when the run completes. Names may
// repeat: each task stages its own. If the run does not complete, its artifacts are dropped, unless the engine is
// told to keep them.
type Artifact struct {
	Name  string  `json:"name"`
	Node  NodeID  `json:"node,omitzero"`
	Token TokenID `json:"token,omitzero"`
	Hash  string  `json:"hash"`          // sha256: and 64 hexadecimal digits
	Size  int64   `json:"size"`          // bytes
	Type  string  `json:"type,omitzero"` // media type
}
