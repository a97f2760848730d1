package main

import (
	"fmt"
	"time"
)

// whileWorking does something that may take long, and says on a terminal for how long it has
// been at it, from the first second on.
func (con *console) whileWorking(what string, do func() error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	return con.tellWhile(what, tick.C, do)
}

// tellWhile tells with every tick how many there were, until do has returned.
func (con *console) tellWhile(what string, tick <-chan time.Time, do func() error) error {
	if !con.Live {
		return do()
	}
	done := make(chan error, 1)
	go func() { done <- do() }() // its end is awaited below
	for n := 1; ; n++ {
		select {
		case err := <-done:
			if n > 1 {
				fmt.Fprint(con.Errs, "\r\x1b[K")
			}
			return err
		case <-tick:
			fmt.Fprintf(con.Errs, "\r%s: %v", what, time.Duration(n)*time.Second)
		}
	}
}
