package workflow

import "slices"

// An Artifact is a named blob that a task hands over with its result. It counts
// when the run completes. Names may repeat: each task stages its own.
type Artifact struct {
	Name  string  `json:"name"`
	Node  NodeID  `json:"node,omitzero"`
	Token TokenID `json:"token,omitzero"`
	Hash  string  `json:"hash"`          // sha256: and 64 hexadecimal digits
	Size  int64   `json:"size"`          // bytes
	Type  string  `json:"type,omitzero"` // media type
}

// AddArtifacts adds to the artifacts of the run.
func (s *State) AddArtifacts(as []Artifact) {
	if s.base != nil {
		s.Artifacts = slices.Clip(s.Artifacts) // the base may have room that is its own
	}
	s.Artifacts = append(s.Artifacts, as...)
}
