package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A model is what an agent asks: put a client of a real one here. This one has
// read a tiny encyclopedia, and says the same every time.
type model struct{}

// A note is what the model knows about one topic, and what it would look into
// because of it.
type note struct {
	Topic string   `json:"topic"`
	Text  string   `json:"text"`
	Leads []string `json:"leads"`
}

// A step is what the model wants next: an answer, or these subtasks.
type step struct {
	Done     bool     `json:"done"`
	Answer   string   `json:"answer"`
	Subtasks []string `json:"subtasks"`
}

// next decides from all that was found so far. Nothing else has a memory: the
// conversation is the state of the run.
func (model) next(goal string, rounds [][]note) step {
	if len(rounds) == 0 {
		return step{Subtasks: []string{goal}}
	}
	var known, open, facts []string
	for _, n := range slices.Concat(rounds...) {
		known = append(known, n.Topic)
		facts = append(facts, n.Text)
	}
	for _, n := range slices.Concat(rounds...) {
		for _, lead := range n.Leads {
			if !slices.Contains(known, lead) && !slices.Contains(open, lead) {
				open = append(open, lead)
			}
		}
	}
	if len(open) > 0 {
		return step{Subtasks: open}
	}
	return step{Done: true, Answer: strings.Join(facts, " ")}
}

// look finds out about one topic.
func (model) look(topic string) note {
	if n, err := strconv.Atoi(topic); err == nil { // there is no end to numbers
		return note{topic, fmt.Sprintf("After %d comes %d.", n, n+1), []string{strconv.Itoa(n + 1)}}
	}
	switch topic {
	case "coffee":
		return note{topic, "Coffee is roasted, ground and brewed.", []string{"roasting", "grinding", "brewing"}}
	case "roasting":
		return note{topic, "Beans pop at 196 degrees.", nil}
	case "grinding":
		return note{topic, "Fine for espresso, coarse for a press.", []string{"espresso"}}
	case "brewing":
		return note{topic, "Water near 93 degrees, for minutes.", []string{"water", "espresso"}}
	case "espresso":
		return note{topic, "Espresso takes nine bars and half a minute.", nil}
	case "water":
		return note{topic, "Soft water tastes best.", []string{"coffee"}}
	}
	return note{topic, "Nothing is known of " + topic + ".", nil}
}
