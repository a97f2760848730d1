package planted

// copies are bugs of directories whose commits are kept in a log outside of them, and of the copies that become of it.
var copies = []bug{
	{
		"a commit counts before the log has it", "store/commit.go",
		"if err := d.appendTransaction(tape); err != nil {", "if err := error(nil); err != nil {",
		".", "TestRemote$",
	},
	{
		"an engine commits whose log another one has", "store/remote.go",
		"		case errors.Is(err, ErrFenced):\n			return p, &refusal{err}\n", "		case errors.Is(err, ErrFenced):\n			return p, nil\n",
		".", "TestRemote$",
	},
	{
		"a caller is answered although nobody knows whether the log has the entry", "store/remote.go",
		"		failed = err\n		r.tell(err)\n", "		return Position{r.place.Seq + 1, PositionOf(0, data).Sum}, nil\n",
		".", "TestRemoteThatDoesNotAnswer",
	},
	{
		"the log drops what no base has yet", "store/log.go",
		"return bases[first:], log.Drop(ctx, bases[first].before)", "return bases[first:], log.Drop(ctx, mark)",
		".", "TestRemoteKeepsWhatIsCommittedWhileABaseIsMade",
	},
	{
		"the tape has what only concerns one copy", "store/commit.go",
		"if d.db.RecordTo(tape); r.local {", "if d.db.RecordTo(tape); r.local && d.remote == nil {",
		".", "TestRemote$",
	},
	{
		"numbers of spills come again after a take-over", "store/dir.go",
		"d.lastSpill.Store(max(d.lastSpill.Load(), d.remote.place.Spill))", "_ = 0",
		".", "TestRemoteNumbersOfSpills",
	},
	{
		"an entry is executed that does not go on from the last", "store/remote_join.go",
		"	case e.before != c.next.Sum:\n", "	case e.before != c.next.Sum && e.kind == entryDamaged:\n",
		".", "TestRemoteThatForgets",
	},
	{
		"a directory that stood by appends a lost end, of which it may have a part", "store/remote_tail.go",
		"lost[len(lost)-1].flag&tailMine == 0", "lost[len(lost)-1].flag > tailFlags",
		".", "TestRemoteMendsWhatItOwned",
	},
	{
		"who is refused takes the log from whoever has it", "store/remote_mend.go",
		"			stop(refused) // nothing is appended\n", "			_ = refused\n",
		".", "TestRemoteThatForgets",
	},
	{
		"what the tail has is forgotten where pawl.db is no further than the log", "store/remote_mend.go",
		"		entry.lost, err = r.tail.findBehind(found.Sum)\n", "		err = nil\n",
		".", "TestRemoteMendsWhatOnlyItsTailHas",
	},
	{
		"an empty log is taken for the beginning of another one", "store/remote_mend.go",
		"	case found.Seq > 0:\n", "	case found.Seq >= 0:\n",
		".", "TestRemoteThatForgets",
	},
	{
		"a log is begun anew whatever is given up", "store/remote_mend.go",
		"	case report.GivenUp > r.anew.o.GiveUp:\n", "	case report.GivenUp > r.anew.o.GiveUp+report.GivenUp:\n",
		".", "TestRecoverGivesUpWhatIsSaid",
	},
	{
		"a list waits for a log that is silent for as long as that is", "store/dir.go",
		"		case <-ctx.Done():\n", "		case <-context.Background().Done():\n",
		".", "TestListsWaitForALogUntilTheirContextEnds",
	},
	{
		"a log that was lost is taken for a new one", "store/remote_join.go",
		"return checkNoBases(ctx, r.Bases)", "return nil",
		".", "TestRemoteRefuses",
	},
	{
		"a directory commits without its log", "store/remote.go",
		"	case d.logAway:\n		return &refusal{ErrRemote}\n", "	case d.logAway && r != nil:\n		return &refusal{ErrRemote}\n",
		".", "TestRemoteRefuses",
	},
	{
		"a message of a log is under way while the next one is sent", "nats/natslog/log.go",
		"	case context.Cause(waits) != nil:\n		return l.appendError(context.Cause(waits))\n", "	case context.Cause(waits) != nil:\n		return nil\n",
		"nats/test", "TestAnswersOfALogThatAreLost",
	},
	{
		"the client sends a message again by itself", "nats/natslog/log.go",
		"jetstream.WithRetryAttempts(0)", "jetstream.WithRetryAttempts(2)",
		"nats/test", "TestAnEntryIsSentOnce",
	},
	{
		"whoever has the lease appends, whoever has taken the log since", "nats/natslog/log.go",
		", jetstream.WithExpectLastSequence(l.end),", ",",
		"nats/test", "TestEntriesOfALogThatComeLate",
	},
	{
		"a stream that is made anew is taken for the old one", "nats/natslog/log.go",
		"subject + \".\" + rand.Text()", "subject + \".\" + \"again\" + rand.Text()[:0]",
		"nats/test", "TestAStreamOfALogThatIsMadeAnew",
	},
}
