// Package failpoint names the places at which a crash must do no harm. In a
// program they cost one atomic load each and do nothing. A test may have itself
// told of every hit, or kill its process at one of them.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// hook is what Hit calls; nil outside tests.
var hook atomic.Pointer[func(name string)]

// Hit says that the program is at the place with this name, which must be a
// literal: tests read the names out of the source.
func Hit(name string) {
	if f := hook.Load(); f != nil {
		(*f)(name)
	}
}

// turn is what Turn calls; nil outside tests.
var turn atomic.Pointer[func(run string)]

// Turn says that the actor of a run is about to send what it waits for, or to plan
// what has come for it. A test that wants one actor to go on at a time blocks it
// there.
func Turn(run string) {
	if f := turn.Load(); f != nil {
		(*f)(run)
	}
}

// SetTurn has f called at every turn of an actor, from its goroutine, and returns
// what ends that. There is one f at a time.
func SetTurn(f func(run string)) (reset func()) {
	turn.Store(&f)
	return func() { turn.Store(nil) }
}

// ask is what Ask calls; nil outside tests.
var ask atomic.Pointer[func(run string, message any)]

// Ask says that a message is about to be delivered to a run. A test that wants to say
// in which order messages from several goroutines arrive blocks them there.
func Ask(run string, message any) {
	if f := ask.Load(); f != nil {
		(*f)(run, message)
	}
}

// SetAsk has f called before every delivery, from the goroutine of the sender, and
// returns what ends that. There is one f at a time.
func SetAsk(f func(run string, message any)) (reset func()) {
	ask.Store(&f)
	return func() { ask.Store(nil) }
}

// Set has f called at every hit, from whichever goroutine it is, and returns
// what ends that. There is one f at a time.
func Set(f func(name string)) (reset func()) {
	hook.Store(&f)
	return func() { hook.Store(nil) }
}

// Also has f called at every hit, before whatever is called already: until that
// is reset, and f with it.
func Also(f func(name string)) {
	was := hook.Load()
	both := func(name string) {
		f(name)
		if was != nil {
			(*was)(name)
		}
	}
	hook.Store(&both)
}

// Variable is the environment variable that FromEnv reads: NAME:N.
const Variable = "PAWL_FAILPOINT"

// FromEnv has the process killed as the environment says: at the N-th hit of a
// name, counted from 1. Without the variable it does nothing. Only test binaries
// call it.
func FromEnv() error {
	text := os.Getenv(Variable)
	if text == "" {
		return nil
	}
	name, n, err := parse(text)
	if err != nil {
		return err
	}
	Set(at(name, n, kill))
	return nil
}

func parse(text string) (name string, n int64, err error) {
	name, number, _ := strings.Cut(text, ":")
	n, err = strconv.ParseInt(number, 10, 64)
	if name == "" || err != nil || n < 1 {
		return "", 0, fmt.Errorf("%s=%q is not NAME:N", Variable, text)
	}
	return name, n, nil
}

// at returns a hook that calls do at the n-th hit of a name.
func at(name string, n int64, do func()) func(string) {
	var hits atomic.Int64
	return func(hit string) {
		if hit == name && hits.Add(1) == n {
			do()
		}
	}
}

// kill ends the process as kill -9 does. Nothing that comes after it in this
// goroutine happens.
func kill() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	panic(fmt.Sprintf("failpoint: cannot kill this process: %v", err))
}
