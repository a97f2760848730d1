package crashtest

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
)

// secret is in values of the sealed work, short and long ones, in a blob, an outcome and a failure.
const secret = "TOP-SECRET"

// sealed is a work whose values are encrypted. Records are put aside, and it is backed up.
var sealed = work{name: "sealed", sealed: true, first: 1, parts: 700, runs: slices.Concat(
	witness.Jobs("parcel", object{"v": secret}),
	witness.Jobs("chain", object{"v": 1, "long": strings.Repeat(secret+" ", 300)}),
	witness.Jobs("saga", object{"item": secret, "card": secret, "address": "nowhere"}))}

// codec returns what the values of a work are sealed with, nil if they are not.
func (w work) codec() pawl.Codec {
	if !w.sealed {
		return nil
	}
	c, err := aesgcm.New(aesgcm.Key{ID: "k1", Secret: bytes.Repeat([]byte("k"), aesgcm.KeySize)})
	if err != nil {
		panic(err)
	}
	return c
}

// With values that are encrypted, processes are killed one after the other at the boundaries of
// commits, files, trims, Open and Close: nothing is lost, all of it can be read with the key, and
// no file has any of the secret, after a kill or later. At the level release every failpoint is tried.
func TestSealedKills(t *testing.T) {
	harness.InTurn(t, 4)
	before := descriptors(t)
	unsealed := sealed
	unsealed.sealed = false
	plain, err := newTrial(filepath.Join(workspace(t), "plain"), unsealed, nil)
	require.NoError(t, err)
	plain.finish()
	require.Empty(t, plain.Wrong)
	plain.checkSecrets()
	require.NotEmpty(t, plain.Wrong, "it is found where it is not encrypted")

	s := newSuite(t, []work{sealed})
	var plans []plan
	for _, points := range [][]string{
		{"commit.begin", "commit.inside", "commit.done", "task.result", "end.tell"},
		{"file.begin", "file.built", "file.renamed", "file.synced"},
		{"open.create", "open.epoch", "mark.torn", "recover.begin", "close.checkpoint", "close.mark", "close.release"},
		{"backup.filled", "backup.synced", "backup.named"},
	} {
		p := plan{work: sealed}
		for _, point := range points {
			p.kills = append(p.kills, kill{point, 1})
		}
		plans = append(plans, p)
	}
	if harness.CurrentLevel() == harness.Release {
		plans = slices.Concat(plans, s.singles(nil), s.chainsOf())
	}
	s.runAll(plans)
	s.logTotal()
	require.Equal(t, before, descriptors(t), "open descriptors")
}

// checkSecrets notes files of a trial, but for the ledger, that have any of the secret, as it is or
// in base64.
func (t *trial) checkSecrets() {
	forbidden := [][]byte{[]byte(secret), []byte(strings.ToLower(secret))}
	for pad := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", pad) + secret))
		forbidden = append(forbidden, []byte(text[4:len(text)-4]))
	}
	err := filepath.WalkDir(t.Dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Dir(name) == t.Dir {
			return err
		}
		data, err := os.ReadFile(name)
		for _, f := range forbidden {
			if bytes.Contains(data, f) {
				t.Bad("after life %d: %s has %q", t.Lives, name, f)
			}
		}
		return err
	})
	if err != nil {
		t.Bad("%v", err)
	}
}
