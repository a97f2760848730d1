package pawl

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
)

// RecoverOptions say how a log is begun anew.
type RecoverOptions struct {
	Log    Log          // of RemoteOptions: the one that is damaged, or a new one of that name
	Bases  blob.Store   // likewise
	Codec  Codec        // of the engine; nil if it has none
	Logger *slog.Logger // nil discards
	Begin  bool         // without it nothing is begun: the report tells what would be given up
	GiveUp int          // how many entries of the log are given up at most
}

// A RecoverReport says how a directory and its log stand to each other.
type RecoverReport = store.RecoverReport

// Errors of Recover.
var (
	// ErrGivesUp says that more would be given up than RecoverOptions.GiveUp.
	ErrGivesUp = store.ErrGivesUp
	// ErrNothingLost says that Open does what is needed.
	ErrNothingLost = store.ErrNothingLost
)

// Recover begins the log of RemoteOptions anew, from the engine directory at path, which no engine may have open: when the log has a hole, is
// damaged beyond what the directory can give back, or is gone. The directory first gets what can still be read of the log behind what it has. Then the log
// has one new base, of this directory, and nothing that was before.
//
// Recover gives up what others have committed there and this directory lacks; so look at the report first, which is made without Begin, and then say how
// much. An engine that has the log commits nothing more. Every other directory of that log is made anew when it is opened the next time, and its former
// content is set aside beside it under a name that ends with .superseded. A Recover that dies half-way can be repeated, or is finished by the next Open of
// this directory.
//
// Errors: ErrInvalid, ErrNothingLost, ErrGivesUp, ErrOtherLog (the directory has no log), ErrLocked, ErrFenced (somebody has appended to the log
// meanwhile), and those of Open.
func Recover(ctx context.Context, path string, o RecoverOptions) (RecoverReport, error) {
	if ctx == nil || path == "" || o.Log == nil || o.Bases == nil {
		return RecoverReport{}, fmt.Errorf("%w: to recover a log takes a context, a directory, a log and a store of bases", ErrInvalid)
	}
	of := store.Options{Durability: ProcessCrash, Logger: o.Logger, Codec: o.Codec, Hook: testhook.From(ctx)}
	return store.RecoverLog(ctx, path, of, store.RecoverOptions{Log: o.Log, Bases: o.Bases, Begin: o.Begin, GiveUp: o.GiveUp})
}
