package main

import (
	"context"
	"strings"
)

// A move is what the model says: whom to ask what, or that it is done.
type move struct {
	Agent string `json:"agent,omitempty"`
	About string `json:"about,omitempty"`
	Done  bool   `json:"done,omitempty"`
	Hire  bool   `json:"-"` // the sub-agent is not among those that the definition lists
}

// decide stands in for a model that is given all notes so far.
func decide(goal string, notes []string) move {
	switch len(notes) {
	case 0:
		return move{Agent: "researcher", About: goal}
	case 1:
		return move{Agent: "researcher", About: goal + " bags"}
	case 2:
		return move{Agent: "critic", About: goal, Hire: true}
	}
	return move{Done: true}
}

// look stands in for a search.
func look(_ context.Context, in struct{ About string }) (string, error) {
	return map[string]string{
		"tea":      "Tea draws for three minutes.",
		"tea bags": "tea bags draw for ten minutes.",
	}[in.About], nil
}

// A question is the input of doubt.
type question struct {
	About string
	Notes []string
}

// doubt stands in for a model that looks for mistakes.
func doubt(_ context.Context, _ question) (string, error) {
	return "ten minutes is too long: three are enough for both.", nil
}

func writeAnswer(_ context.Context, in struct{ Notes []string }) (string, error) {
	return strings.Join(in.Notes, " "), nil
}

// proofread begins each sentence with a capital.
func proofread(_ context.Context, in struct{ Page string }) (string, error) {
	sentences := strings.SplitAfter(in.Page, ". ")
	for i, s := range sentences {
		sentences[i] = strings.ToUpper(s[:1]) + s[1:]
	}
	return strings.Join(sentences, ""), nil
}
